"""train_and_evaluate: roles, local training with evaluations, and the state of the run for the evaluator."""

from __future__ import annotations

import json
import signal
import sys
import types

import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, DivergedError
from ps_train.cluster.membership.run_status import RunState, StatusFile, read_status
from ps_train.compat.estimator.checkpoint_evaluator import CheckpointEvaluator
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.estimator.spec.train_spec import TrainSpec
from ps_train.compat.estimator.train_and_evaluate import EvaluationListener, train_and_evaluate
from tests.support.compat.scripted_estimator import Clock, RecordingExporter, ScriptedEstimator

CLUSTER = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1", "c:2"]}
MASTER = {"master": ["a:1"], "ps": ["b:1"], "worker": ["c:1"]}


def train_data():
    return 1


def eval_data():
    return 2


class Listener(v1.train.CheckpointSaverListener):
    pass


@pytest.fixture(autouse=True)
def without_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def as_task(monkeypatch, tmp_path):
    """Returns a function: a task and its cluster to an Estimator of this task."""

    def make(name, index=0, steps=(), cluster=CLUSTER):
        task = {"type": name, "index": index}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        return ScriptedEstimator(tmp_path / "model", steps, RunConfig())

    return make


@pytest.fixture
def served(monkeypatch):
    """The configurations with which a ps was served."""
    configs = []
    engines = types.ModuleType("ps_train.compat.estimator.engines")
    engines.serve = configs.append
    monkeypatch.setitem(sys.modules, "ps_train.compat.estimator.engines", engines)
    monkeypatch.setattr(sys.modules["ps_train.compat.estimator"], "engines", engines, raising=False)
    return configs


def run(estimator, max_steps=100, train=None, **spec):
    return train_and_evaluate(
        estimator,
        TrainSpec(train_data, max_steps=max_steps, **(train or {})),
        EvalSpec(eval_data, **{"start_delay_secs": 0, "throttle_secs": 0, **spec}),
    )


@pytest.mark.parametrize("task", [None, ("chief", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)])
def test_point_24_arguments_have_their_types_in_every_role(tmp_path, as_task, served, task):
    estimator = ScriptedEstimator(tmp_path) if task is None else as_task(*task)
    train_spec, eval_spec = TrainSpec(train_data, 100), EvalSpec(eval_data, start_delay_secs=0)
    for given, problem in [
        (("estimator", train_spec, eval_spec), "use a ps_train.estimator.Estimator"),
        ((estimator, eval_spec, eval_spec), "train_spec=.* is of type EvalSpec: use TrainSpec"),
        ((estimator, train_spec, train_spec), "eval_spec=.* is of type TrainSpec: use EvalSpec"),
        ((estimator, train_spec, None), "eval_spec=None is of type NoneType"),
    ]:
        with pytest.raises(TypeError, match=problem):
            train_and_evaluate(*given)
    assert estimator.calls == [] and served == []


@pytest.mark.parametrize(("task", "index"), [("chief", 0), ("worker", 0), ("worker", 1)])
def test_point_25_chief_and_workers_train(as_task, served, task, index):
    hook, listener = v1.train.StopAtStepHook(1), Listener()
    estimator = as_task(task, index)
    assert run(estimator, train={"hooks": [hook], "saving_listeners": [listener]}) is None
    (given,) = estimator.given("train")
    assert (given["input_fn"], given["max_steps"], given["hooks"]) == (train_data, 100, [hook])
    assert given.get("saving_listeners", []) == ([listener] if task == "chief" else [])
    assert estimator.given("evaluate") == [] and served == []


def test_point_25_worker_0_is_the_chief_where_there_is_no_other(as_task):
    listener = Listener()
    for index, expected in [(0, [listener]), (1, [])]:
        estimator = as_task("worker", index, cluster={"ps": ["b:1"], "worker": ["c:1", "c:2"]})
        run(estimator, train={"saving_listeners": [listener]})
        assert estimator.given("train")[0].get("saving_listeners", []) == expected


def test_point_25_and_29_a_ps_serves(as_task, served):
    estimator = as_task("ps")
    assert run(estimator) is None
    assert [config.task_type for config in served] == ["ps"] and estimator.calls == []


def test_point_25_and_29_an_evaluator_evaluates_and_returns(as_task):
    estimator, exporter = as_task("evaluator"), RecordingExporter()
    estimator.save(100)
    assert run(estimator, exporters=exporter) is None
    assert estimator.evaluated == [100] and estimator.given("train") == []
    assert exporter.steps(is_final=True) == [100]


@pytest.mark.parametrize("name", ["local", "gpu_worker"])
def test_point_25_other_tasks_are_refused(as_task, monkeypatch, name):
    with pytest.raises(ValueError, match=f"task type is '{name}'"):
        as_task(name)
    estimator = as_task("chief")
    monkeypatch.setattr(estimator, "config", types.SimpleNamespace(cluster_spec=CLUSTER, task_type=name, task_id=0))
    with pytest.raises(ValueError, match=f"the task type '{name}' .* is unknown: use chief, master, worker, ps, eval"):
        run(estimator)


def test_point_26_there_is_one_evaluator(as_task):
    estimator = as_task("evaluator", 1)
    with pytest.raises(ValueError, match=r"evaluator:1 \(from TF_CONFIG\), but a job has one evaluator"):
        run(estimator)
    assert estimator.calls == []


def test_point_27_every_checkpoint_with_new_steps_is_evaluated(tmp_path):
    estimator, exporter = ScriptedEstimator(tmp_path, [0, 30, 60, 100]), RecordingExporter()
    metrics, exports = run(estimator, exporters=exporter)
    assert estimator.evaluated == [30, 60, 100]
    assert metrics == {"loss": 0.5, "global_step": 100} and exports == [3]
    assert (exporter.steps(False), exporter.steps(True)) == ([30, 60], [100])


def test_point_27_and_28_the_throttle_holds_for_all_but_the_last_evaluation(tmp_path):
    estimator = ScriptedEstimator(tmp_path, [0, 30, 60, 100])
    metrics, _ = run(estimator, throttle_secs=3600)
    assert estimator.evaluated == [30, 100] and metrics["global_step"] == 100


def test_point_27_the_throttle_counts_from_the_begin_of_the_last_evaluation(tmp_path):
    clock, estimator = Clock(), ScriptedEstimator(tmp_path, [0, 10, 20, 30, 40])
    evaluator = CheckpointEvaluator(estimator, EvalSpec(eval_data), 100, clock.now)
    listener = EvaluationListener(evaluator, 60, clock.now)
    times = {0: 0.0, 10: 5.0, 20: 64.0, 30: 65.0, 40: 124.0}
    estimator.before_save = lambda step: setattr(clock, "time", times[step])
    estimator.train(saving_listeners=[listener])
    assert estimator.evaluated == [10, 30]


@pytest.mark.parametrize("steps", [[10, 20, 30], [20, 30]], ids=["TensorFlow's saver", "the engine's"])
def test_point_27_each_training_skips_what_was_there_before(tmp_path, steps):
    estimator = ScriptedEstimator(tmp_path, [0, 10])
    listener = EvaluationListener(CheckpointEvaluator(estimator, EvalSpec(eval_data), None), 0)
    estimator.train(saving_listeners=[listener])
    estimator.steps = steps
    estimator.train(saving_listeners=[listener])
    assert estimator.evaluated == [10, 20, 30]


@pytest.mark.parametrize("max_steps", [100, None])
def test_point_28_the_last_checkpoint_is_evaluated_once(tmp_path, max_steps):
    for steps in ([0, 50, 80], [0, 80], [80]):
        estimator, exporter = ScriptedEstimator(tmp_path, steps), RecordingExporter()
        metrics, _ = run(estimator, max_steps, exporters=exporter)
        assert estimator.evaluated.count(80) == 1 and metrics["global_step"] == 80
        assert exporter.steps(is_final=True) == [80]


def test_a_training_without_any_checkpoint_has_no_result(tmp_path):
    estimator = ScriptedEstimator(tmp_path)
    assert run(estimator) == (None, [])
    assert estimator.evaluated == []


def test_point_32_a_restart_at_the_end_only_evaluates(tmp_path):
    estimator, exporter = ScriptedEstimator(tmp_path), RecordingExporter()
    estimator.save(100)  # train() makes no step and no checkpoint
    metrics, exports = run(estimator, exporters=exporter)
    assert estimator.evaluated == [100] and metrics["global_step"] == 100
    assert exporter.steps(is_final=True) == [100] and exports == [1]


def test_point_40_hooks_of_training_and_evaluation_are_kept_apart(tmp_path):
    of_training, of_evaluation = v1.train.StopAtStepHook(1), v1.train.StopAtStepHook(2)
    estimator = ScriptedEstimator(tmp_path, [0, 100])
    run(estimator, train={"hooks": [of_training]}, hooks=[of_evaluation])
    assert [given["hooks"] for given in estimator.given("train")] == [[of_training]]
    assert [given["hooks"] for given in estimator.given("evaluate")] == [(of_evaluation,)]


def test_the_users_listeners_come_before_the_evaluation(tmp_path):
    listener = Listener()
    estimator = ScriptedEstimator(tmp_path, [0, 100])
    run(estimator, train={"saving_listeners": [listener]})
    found = estimator.given("train")[0]["saving_listeners"]
    assert found[0] is listener and [type(other) for other in found[1:]] == [EvaluationListener]


@pytest.mark.parametrize(("result", "error"), [([1], TypeError), ({"loss": 1.0}, ValueError)])
def test_point_41_a_wrong_result_of_an_evaluation_is_an_error(tmp_path, result, error):
    estimator = ScriptedEstimator(tmp_path, [0, 100])
    estimator.result = result
    with pytest.raises(error, match=r"Estimator.evaluate\(\) returned"):
        run(estimator)


def test_point_41_an_evaluation_without_a_new_checkpoint_is_an_error(tmp_path):
    estimator = ScriptedEstimator(tmp_path, [0, 50, 100])
    estimator.save = lambda step: setattr(estimator, "newest", min(step, 50))
    with pytest.raises(RuntimeError, match="the checkpoint of step 100 cannot be found"):
        run(estimator)


def test_point_39_a_master_evaluates_and_exports_at_checkpoints(as_task):
    estimator, exporter = as_task("master", steps=[0, 30, 60, 100], cluster=MASTER), RecordingExporter()
    assert run(estimator, exporters=exporter) is None
    assert estimator.evaluated == [30, 60, 100]
    assert (exporter.steps(False), exporter.steps(True)) == ([30, 60], [100])
    assert read_status(estimator.model_dir).status.state == RunState.DONE


def test_point_39_a_master_evaluates_its_last_checkpoint_in_spite_of_the_throttle(as_task):
    estimator = as_task("master", steps=[0, 30, 60, 90], cluster=MASTER)
    run(estimator, throttle_secs=3600)
    assert estimator.evaluated == [30, 90]


def states_during(estimator):
    """The states of the run that an evaluator reads while checkpoints are written."""
    states = []
    estimator.before_save = lambda step: states.append(read_status(estimator.model_dir).status)
    return states


def test_point_37_the_chief_tells_the_evaluator_that_the_run_goes_on_and_that_it_is_done(as_task):
    estimator = as_task("chief", steps=[0, 50])
    states = states_during(estimator)
    run(estimator, max_steps=70)
    assert [(status.state, status.max_steps) for status in states] == [(RunState.RUNNING, 70)] * 2
    ended = read_status(estimator.model_dir).status
    assert (ended.state, ended.max_steps, ended.holder) == (RunState.DONE, 70, states[0].holder)


@pytest.mark.parametrize(
    ("error", "state", "signum", "cause", "config"),
    [
        (DivergedError("the loss is NaN"), RunState.FAILED, 0, "the loss is NaN", False),
        (ConfigError("batch_size=0"), RunState.FAILED, 0, "batch_size=0", True),
        (ValueError("own"), RunState.FAILED, 0, "ValueError: own", False),
        (KeyboardInterrupt(), RunState.STOPPED, signal.SIGINT, "", False),
        (SystemExit(143), RunState.STOPPED, signal.SIGTERM, "", False),
        (SystemExit(1), RunState.FAILED, 0, "SystemExit: 1", False),
        (SystemExit("own text"), RunState.FAILED, 0, "SystemExit: own text", False),
        (SystemExit(0), RunState.DONE, 0, "", False),
        (SystemExit(), RunState.DONE, 0, "", False),
    ],
)
def test_point_37_the_chief_tells_how_the_run_ended(as_task, error, state, signum, cause, config):
    estimator = as_task("chief", steps=[0])

    def fail(step):
        raise error

    estimator.before_save = fail
    with pytest.raises(type(error)):
        run(estimator)
    ended = read_status(estimator.model_dir).status
    assert (ended.state, ended.signum, ended.cause, ended.config) == (state, signum, cause, config)


def test_point_37_an_engine_that_tells_the_state_itself_is_left_alone(as_task):
    estimator = as_task("chief", steps=[0])

    def tell(step):
        file = StatusFile(estimator.model_dir, "engine", 100)
        file.begin()
        file.end(RunState.STOPPED, signum=15)

    estimator.before_save = tell
    run(estimator)
    ended = read_status(estimator.model_dir).status
    assert (ended.state, ended.holder) == (RunState.STOPPED, "engine")


@pytest.mark.parametrize("task", [None, ("worker", 1)])
def test_only_a_chief_tells_the_state_of_the_run(tmp_path, as_task, task):
    estimator = ScriptedEstimator(tmp_path, [0]) if task is None else as_task(*task, steps=[0])
    run(estimator)
    assert read_status(estimator.model_dir) is None
