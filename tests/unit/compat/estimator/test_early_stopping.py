"""Hooks that end the training early: when they do, and how the chief's decision reaches the other workers."""

from __future__ import annotations

import dataclasses
import types

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator import early_stopping
from ps_train.compat.estimator.early_stopping import (
    ENGINE_ENDS_JOB,
    make_early_stopping_hook,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from tests.support.saved.event_files import write


@dataclasses.dataclass
class Estimator:
    """The parts of an Estimator that the hooks need."""

    model_dir: str = "/none"
    is_chief: bool = True

    @property
    def config(self):
        return types.SimpleNamespace(is_chief=self.is_chief)

    def eval_dir(self, name=None):
        return f"{self.model_dir}/eval"

    train = evaluate = export_saved_model = latest_checkpoint = None


class Steps:
    """A training that only counts its global step."""

    def __init__(self, hook, target="", is_chief=True, engine_ends_job=False):
        self.graph = tf.Graph()
        with self.graph.as_default():
            if engine_ends_job:
                v1.add_to_collection(ENGINE_ENDS_JOB, True)
            self._step = v1.assign_add(v1.train.get_or_create_global_step(), 1)
            creator = v1.train.ChiefSessionCreator if is_chief else v1.train.WorkerSessionCreator
            self.session = v1.train.MonitoredSession(creator(master=target), [hook])

    def run(self, most=1):
        """Makes up to so many steps; returns how many it made."""
        for made in range(most):
            if self.session.should_stop():
                return made
            self.session.run(self._step)
        return most

    @property
    def has_ended(self):
        return self.session.should_stop()

    def queues(self):
        return [op.type for op in self.graph.get_operations() if "Queue" in op.type]


def steps_until_stop(hook, most=4):
    steps = Steps(hook)
    with steps.session:
        return steps.run(most)


@pytest.mark.parametrize(
    ("make", "threshold", "min_steps", "stops"),
    [
        (stop_if_higher_hook, 0.75, 0, True),
        (stop_if_higher_hook, 0.8125, 0, False),
        (stop_if_higher_hook, 0.75, 3, False),
        (stop_if_lower_hook, 0.5, 0, True),
        (stop_if_lower_hook, 0.375, 0, False),
        (stop_if_lower_hook, 0.5, 1, True),
        (stop_if_lower_hook, 0.5, 2, False),
    ],
)
def test_point_84_a_metric_beyond_its_threshold_stops(tmp_path, make, threshold, min_steps, stops):
    write(tmp_path / "eval", {1: {"auc": 0.4375}, 2: {"auc": 0.8125}, 3: {"auc": 0.625}})
    hook = make(Estimator(tmp_path), "auc", threshold, min_steps=min_steps, run_every_secs=None, run_every_steps=1)
    assert steps_until_stop(hook) == (1 if stops else 4)


@pytest.mark.parametrize(
    ("make", "values", "patience", "min_steps", "stops"),
    [
        (stop_if_no_increase_hook, {0: 0.5, 10: 0.6, 20: 0.4, 30: 0.6}, 20, 0, True),
        (stop_if_no_increase_hook, {0: 0.5, 10: 0.6, 20: 0.4, 30: 0.7}, 20, 0, False),
        (stop_if_no_increase_hook, {0: 0.5, 10: 0.6, 20: 0.4, 30: 0.6}, 21, 0, False),
        (stop_if_no_increase_hook, {0: 0.5, 10: 0.6, 20: 0.4, 30: 0.6}, 20, 11, False),
        (stop_if_no_increase_hook, {0: 0.5, 10: 0.4, 20: 0.4, 30: 0.6}, 20, 0, True),
        (stop_if_no_decrease_hook, {0: 0.5, 10: 0.4, 20: 0.6, 30: 0.4}, 20, 0, True),
        (stop_if_no_decrease_hook, {0: 0.5, 10: 0.4, 20: 0.6, 30: 0.3}, 20, 0, False),
        (stop_if_no_decrease_hook, {0: 0.5, 10: 0.4, 20: 0.6, 30: 0.4}, 20, 20, False),
    ],
)
def test_point_84_a_metric_that_gets_no_better_stops(tmp_path, make, values, patience, min_steps, stops):
    write(tmp_path / "eval", {step: {"auc": value} for step, value in values.items()})
    hook = make(Estimator(tmp_path), "auc", patience, min_steps=min_steps, run_every_secs=None, run_every_steps=1)
    assert steps_until_stop(hook) == (1 if stops else 4)


def test_point_84_another_eval_dir_may_be_given(tmp_path):
    write(tmp_path / "eval", {1: {"loss": 1.0}})
    write(tmp_path / "eval_test", {1: {"loss": 5.0}})
    estimator = Estimator(tmp_path)
    own = stop_if_lower_hook(estimator, "loss", 2.0, None, 0, None, 1)
    other = stop_if_lower_hook(estimator, "loss", 2.0, str(tmp_path / "eval_test"), 0, None, 1)
    assert (steps_until_stop(own), steps_until_stop(other)) == (1, 4)


def test_point_84_before_the_first_evaluation_training_goes_on(tmp_path):
    hook = stop_if_lower_hook(Estimator(tmp_path), "loss", 2.0, run_every_secs=None, run_every_steps=1)
    assert steps_until_stop(hook) == 4


def test_a_metric_that_no_evaluation_has_is_an_error(tmp_path):
    write(tmp_path / "eval", {1: {"loss": 1.0, "auc": 0.5}})
    hook = stop_if_lower_hook(Estimator(tmp_path), "acc", 2.0, run_every_secs=None, run_every_steps=1)
    with pytest.raises(ValueError, match=r"metric_name='acc' is not in .*eval: use one of auc, loss"):
        steps_until_stop(hook)


def test_results_without_the_metric_are_ignored(tmp_path):
    write(tmp_path / "eval", {1: {"own": 0.0}, 2: {"loss": 1.0}})
    hook = stop_if_lower_hook(Estimator(tmp_path), "loss", 2.0, run_every_secs=None, run_every_steps=1)
    assert steps_until_stop(hook) == 1


def test_point_84_the_function_is_called_every_so_many_steps():
    calls = []
    hook = make_early_stopping_hook(Estimator(), lambda: calls.append(1), run_every_secs=None, run_every_steps=3)
    assert steps_until_stop(hook, 7) == 7
    assert len(calls) == 3  # after the steps 1, 4 and 7


def test_point_84_the_function_is_called_every_so_many_seconds():
    calls = []
    hook = make_early_stopping_hook(Estimator(), lambda: calls.append(1), run_every_secs=3600)
    assert steps_until_stop(hook, 7) == 7
    assert len(calls) == 1


@pytest.mark.parametrize("given", [(1, 1), (None, None)])
def test_point_84_steps_or_seconds_are_given(given):
    with pytest.raises(ValueError, match=r"run_every_secs=.* and run_every_steps=.*: give one of them"):
        make_early_stopping_hook(Estimator(), lambda: True, *given)
    with pytest.raises(ValueError, match="give one of them"):
        stop_if_higher_hook(Estimator(), "auc", 1.0, None, 0, *given)


@pytest.mark.parametrize("estimator", [None, "estimator", object()])
def test_point_86_the_estimator_has_its_type(estimator):
    for make in (
        lambda: make_early_stopping_hook(estimator, lambda: True),
        lambda: stop_if_lower_hook(estimator, "a", 1),
    ):
        with pytest.raises(TypeError, match=r"use a ps_train\.estimator\.Estimator"):
            make()


def test_point_86_the_function_can_be_called():
    with pytest.raises(TypeError, match="should_stop_fn=3 cannot be called"):
        make_early_stopping_hook(Estimator(), 3)


@pytest.fixture(scope="module")
def server():
    return v1.train.Server.create_local_server()


@pytest.fixture
def job(server):
    """Returns a function: what the chief's function returns, to the steps of the chief and of another worker."""
    begun = []

    def start(should_stop, engine_ends_job=False):
        for is_chief in (True, False):
            hook = make_early_stopping_hook(Estimator(is_chief=is_chief), should_stop, None, 1)
            begun.append(Steps(hook, server.target, is_chief, engine_ends_job))
        return begun[-2:]

    yield start
    for steps in begun:
        steps.session.close()


def test_point_85_the_chief_decides_and_the_others_stop(job):
    decision = [False]
    chief, worker = job(lambda: decision[0])
    assert (chief.run(), worker.run(3), chief.run()) == (1, 3, 1)
    assert not chief.has_ended and not worker.has_ended
    decision[0] = True
    chief.run()
    assert chief.has_ended and not worker.has_ended
    worker.run()
    assert worker.has_ended


def test_point_85_only_the_chief_asks(job):
    calls = []
    _, worker = job(lambda: calls.append(1))
    worker.run(3)
    assert calls == []


def test_point_85_the_next_job_on_the_same_ps_does_not_stop_at_once(job):
    chief, _ = job(lambda: True)
    chief.run()
    assert chief.has_ended
    chief, worker = job(lambda: False)
    assert (worker.run(2), chief.run(2), worker.run(1)) == (2, 2, 1)
    assert not chief.has_ended and not worker.has_ended


def test_point_85_an_engine_that_ends_the_job_needs_no_signal(job):
    chief, worker = job(lambda: True, engine_ends_job=True)
    chief.run()
    worker.run()
    assert chief.has_ended and not worker.has_ended
    assert chief.queues() == worker.queues() == []


@pytest.mark.parametrize("is_chief", [True, False])
def test_the_signal_lives_where_the_global_step_does_and_is_in_no_checkpoint(is_chief):
    cluster = {"ps": ["a:1", "a:2"], "worker": ["b:1", "b:2"]}
    hook = make_early_stopping_hook(Estimator(is_chief=is_chief), lambda: True)
    with tf.Graph().as_default() as graph, v1.device(v1.train.replica_device_setter(cluster=cluster)):
        v1.train.get_or_create_global_step()
        hook.begin()
        devices = {op.device.removesuffix("/device:CPU:*") for op in graph.get_operations() if "Queue" in op.type}
        assert v1.train.get_global_step().device == "/job:ps/task:0"
        assert devices == {"/job:ps/task:0"}
        assert [variable.op.name for variable in v1.global_variables()] == ["global_step"]
        names = {op.name: op.get_attr("shared_name") for op in graph.get_operations() if op.type == "FIFOQueueV2"}
        assert names == {early_stopping._QUEUE: early_stopping._QUEUE.encode()}
