"""An Estimator: how it is made, what it hands to user functions, and what its methods refuse."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.estimator.spec.train_spec import TrainSpec
from ps_train.compat.estimator.train_and_evaluate import train_and_evaluate
from tests.support.compat.estimators import Y, estimator, features_only, forever, model_fn, once, spec_of, weights_of


def test_point_43_a_model_fn_is_checked_at_construction(tmp_path):
    with pytest.raises(ValueError, match="needs a model_fn"):
        Estimator(None, str(tmp_path))
    with pytest.raises(ValueError, match="takes units"):
        Estimator(lambda features, units: None, str(tmp_path))
    with pytest.raises(ValueError, match="no argument params"):
        Estimator(model_fn, str(tmp_path), params={"units": 3})


def test_point_45_params_are_copied_deeply(tmp_path):
    given, seen = {"units": [3]}, []

    def changing(features, labels, mode, params):
        seen.append(list(params["units"]))
        params["units"].append(4)
        return spec_of(mode, features, labels)

    made = Estimator(changing, str(tmp_path), RunConfig(engine="tensorflow"), params=given)
    given["units"].append(5)
    made.params["units"].append(6)
    made.evaluate(once, steps=1)
    made.evaluate(once, steps=1)
    assert seen == [[3], [3]] and made.params == {"units": [3]}


def test_point_45_config_must_be_a_run_config_and_is_copied(tmp_path):
    with pytest.raises(ValueError, match="must be a RunConfig, not dict"):
        Estimator(model_fn, str(tmp_path), config={"model_dir": "x"})
    made = Estimator(model_fn, str(tmp_path), RunConfig(tf_random_seed=7))
    assert made.config.tf_random_seed == 7 and made.config is not made.config


def test_point_45_two_different_model_dirs_are_refused_and_equal_ones_are_not(tmp_path):
    with pytest.raises(ValueError, match="differs from the RunConfig's"):
        Estimator(model_fn, str(tmp_path / "a"), RunConfig(model_dir=str(tmp_path / "b")))
    assert Estimator(model_fn, str(tmp_path), RunConfig(model_dir=str(tmp_path))).model_dir == str(tmp_path)
    assert Estimator(model_fn, None, RunConfig(model_dir=str(tmp_path))).model_dir == str(tmp_path)


def test_point_45_a_model_dir_may_be_a_path_and_the_config_gets_it(tmp_path):
    made = Estimator(model_fn, tmp_path)
    assert made.model_dir == str(tmp_path) and made.config.model_dir == str(tmp_path)


def test_point_45_without_a_model_dir_there_is_a_temporary_one_and_a_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Estimator(model_fn)
    assert pathlib.Path(made.model_dir).parent == tmp_path and pathlib.Path(made.model_dir).is_dir()
    assert f"no model_dir is given: the model is kept in {made.model_dir}" in caplog.text


def test_point_45_an_empty_model_dir_is_a_flag_that_was_not_given(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert pathlib.Path(Estimator(model_fn, "").model_dir).parent == tmp_path
    assert Estimator(model_fn, "", RunConfig(model_dir=str(tmp_path))).model_dir == str(tmp_path)


@pytest.mark.parametrize("task", ["chief", "master", "worker"])
def test_a_cluster_of_one_task_trains_alone(tmp_path, monkeypatch, task):
    cluster = {task: ["localhost:1"], "evaluator": ["localhost:2"], "data_server": ["localhost:3"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": task, "index": 0}}))
    made = Estimator(model_fn, str(tmp_path))
    train_and_evaluate(made, TrainSpec(once, max_steps=1), EvalSpec(once, steps=1))
    assert made.get_variable_value("global_step") == 1


def test_sessions_may_place_operations_softly_unless_the_user_decides(tmp_path):
    assert Estimator(model_fn, str(tmp_path)).config.session_config.allow_soft_placement
    own = RunConfig(session_config=v1.ConfigProto(inter_op_parallelism_threads=3))
    assert Estimator(model_fn, str(tmp_path), own).config.session_config == own.session_config


@pytest.mark.parametrize(
    "input_fn",
    [
        once,
        lambda: v1.data.make_one_shot_iterator(once()).get_next(),
        lambda: once().map(lambda features, labels: (features, {"y": labels})),
        lambda: ({"x": tf.ones([3, 2])}, tf.ones([3])),
    ],
    ids=["dataset", "tensors of an iterator", "dict of labels", "tensors"],
)
def test_point_47_inputs_may_be_datasets_tensors_and_dicts(tmp_path, input_fn):
    seen = []

    def looking(features, labels, mode):
        seen.append((sorted(features), sorted(labels) if isinstance(labels, dict) else None))
        return spec_of(mode, features, labels["y"] if isinstance(labels, dict) else labels)

    result = estimator(tmp_path, looking).evaluate(input_fn, steps=1)
    assert np.isfinite(result["loss"]) and seen[0][0] == ["x"] and seen[0][1] in (None, ["y"])


def test_point_47_an_input_may_have_features_alone(tmp_path):
    seen = []

    def without(features, labels, mode):
        seen.append(labels)
        return spec_of(mode, features, tf.zeros([tf.shape(features["x"])[0]]))

    assert estimator(tmp_path, without).evaluate(features_only)["loss"] == 0.0
    assert seen == [None]


def test_point_47_a_batch_of_three_parts_is_refused(tmp_path):
    def three():
        return once().map(lambda features, labels: (features, labels, labels))

    with pytest.raises(ValueError, match="batches of 3 parts"):
        estimator(tmp_path).evaluate(three)
    with pytest.raises(ValueError, match="batches of 1 parts"):
        estimator(tmp_path).train(lambda: (tf.ones([2, 2]),), steps=1)


def test_point_48_labels_that_the_model_fn_does_not_take_are_refused(tmp_path):
    def no_labels(features, mode):
        return spec_of(mode, features, None)

    with pytest.raises(ValueError, match="takes no labels"):
        estimator(tmp_path, no_labels).train(forever, steps=1)
    assert len(list(estimator(tmp_path, no_labels).predict(features_only))) == len(Y)


def test_point_49_a_model_fn_must_return_a_spec(tmp_path):
    with pytest.raises(ValueError, match="must return an EstimatorSpec, not tuple"):
        estimator(tmp_path, lambda features, labels, mode: ()).evaluate(once)


@pytest.mark.parametrize("call", ["train", "evaluate", "predict"])
def test_point_50_an_input_fn_finds_a_global_step_and_the_seed(tmp_path, call):
    seen = []

    def input_fn():
        step = v1.train.get_global_step()
        seen.append((step.op.name, step.dtype.is_integer, v1.get_default_graph().seed))
        return once()

    made = estimator(tmp_path, tf_random_seed=11)
    if call == "train":
        made.train(input_fn, steps=1)
    else:
        list(getattr(made, call)(input_fn))
    assert seen == [("global_step", True, 11)]


def test_point_50_every_call_has_a_graph_of_its_own_and_resource_variables(tmp_path):
    graphs, kinds = [], []

    def looking(features, labels, mode):
        spec = spec_of(mode, features, labels)
        graphs.append(v1.get_default_graph())
        kinds.extend(variable.op.type for variable in v1.global_variables())
        return spec

    made = estimator(tmp_path, looking)
    made.train(forever, steps=1).evaluate(once, steps=1)
    assert graphs[0] is not graphs[1] and set(kinds) == {"VarHandleOp"}
    assert tf.executing_eagerly()


@pytest.mark.parametrize("call", ["train", "evaluate", "predict"])
def test_a_hook_of_another_type_is_refused(tmp_path, call):
    with pytest.raises(TypeError, match="hooks has 3"):
        getattr(estimator(tmp_path), call)(once, hooks=[3])


def test_a_listener_of_another_type_is_refused(tmp_path):
    with pytest.raises(TypeError, match="saving_listeners has"):
        estimator(tmp_path).train(once, saving_listeners=[object()])


@pytest.mark.parametrize("task", ["ps", "evaluator"])
def test_a_ps_or_evaluator_does_not_train(tmp_path, monkeypatch, task):
    cluster = '{"chief": ["localhost:1"], "ps": ["localhost:2"], "worker": ["localhost:3"]}'
    monkeypatch.setenv("TF_CONFIG", f'{{"cluster": {cluster}, "task": {{"type": "{task}", "index": 0}}}}')
    with pytest.raises(ValueError, match=f"this task is a {task}"):
        estimator(tmp_path).train(once)


def test_variables_are_read_from_the_newest_checkpoint(tmp_path):
    made = estimator(tmp_path)
    for read in (made.get_variable_names, lambda: made.get_variable_value("w")):
        with pytest.raises(ValueError, match="Couldn't find trained model"):
            read()
    assert made.latest_checkpoint() is None
    made.train(forever, steps=2)
    assert made.get_variable_names() == ["global_step", "w"]
    assert made.get_variable_value("w").shape == (2, 1) and weights_of(made).any()
    assert made.latest_checkpoint() == str(tmp_path / "model.ckpt-2")


def test_point_73_the_directory_of_an_evaluation_has_its_name(tmp_path):
    made = estimator(tmp_path)
    assert made.eval_dir() == str(tmp_path / "eval") and made.eval_dir("test") == str(tmp_path / "eval_test")


def test_the_model_fn_of_an_estimator_has_its_params(tmp_path):
    def scaled(features, labels, mode, params):
        return EstimatorSpec(mode, predictions=features * params["scale"])

    made = Estimator(scaled, str(tmp_path), params={"scale": 3.0})
    with tf.Graph().as_default(), v1.Session() as session:
        spec = made.model_fn(tf.constant([1.0, 2.0]), None, "infer", made.config)
        assert session.run(spec.predictions).tolist() == [3.0, 6.0]
