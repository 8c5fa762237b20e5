"""Warm starts read exactly the variables that the settings choose."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.warm_start import VocabInfo, WarmStartSettings, warm_start_settings
from ps_train.estimator.export import ServingInputReceiver
from tests.support.compat.estimators import estimator, forever, model_fn, once, weights_of


def values(prefix: str = "", start: float = 0.0, rows: int = 2):
    """A model_fn of two variables and one that is not trained, each with its own initial value."""

    def function(features, labels, mode):
        initial = v1.constant_initializer
        a = v1.get_variable(f"{prefix}a", [rows, 1], initializer=initial(start + 1))
        v1.get_variable(f"{prefix}b", [2], initializer=initial(start + 2))
        v1.get_variable("state", [2], initializer=initial(start + 3), trainable=False)
        loss = tf.reduce_sum(labels) * tf.reduce_sum(a) * 0
        return EstimatorSpec(mode, loss=loss, train_op=v1.train.get_global_step().assign_add(1))

    return function


def started(tmp_path, source, function=None) -> dict[str, float]:
    """First element of each variable of a new model that starts from a trained one with values 11, 12 and 13."""
    if not (tmp_path / "old").exists():
        estimator(tmp_path / "old", values(start=10)).train(forever, steps=2)
    function = function or values()
    config = estimator(tmp_path / "new").config
    new = Estimator(function, str(tmp_path / "new"), config, warm_start_from=source).train(forever, steps=1)
    names = [name for name in new.get_variable_names() if name != "global_step"]
    assert new.get_variable_value("global_step") == 1
    return {name: float(new.get_variable_value(name).flat[0]) for name in names}


def test_point_64_a_path_starts_all_trainable_variables(tmp_path):
    assert started(tmp_path, str(tmp_path / "old")) == {"a": 11, "b": 12, "state": 3}


@pytest.mark.usual(2)
@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("b", {"a": 1, "b": 12, "state": 3}),
        (["b", "state"], {"a": 1, "b": 12, "state": 13}),
        (["a", "b", "state"], {"a": 11, "b": 12, "state": 13}),
        (None, {"a": 1, "b": 2, "state": 3}),
    ],
)
def test_point_64_regular_expressions_choose(tmp_path, choice, expected):
    settings = WarmStartSettings(str(tmp_path / "old"), vars_to_warm_start=choice)
    assert started(tmp_path, settings) == expected


def test_point_64_names_may_have_changed(tmp_path):
    settings = WarmStartSettings(str(tmp_path / "old"), var_name_to_prev_var_name={"new_a": "a", "new_b": "b"})
    assert started(tmp_path, settings, values("new_")) == {"new_a": 11, "new_b": 12, "state": 3}


def test_point_64_a_vocabulary_may_have_changed(tmp_path):
    (tmp_path / "old.txt").write_text("x\ny\n")
    (tmp_path / "new.txt").write_text("y\nz\nx\n")

    def rows(features, labels, mode):
        table = v1.get_variable("w", [3, 1], initializer=v1.constant_initializer(-1.0))
        loss = tf.reduce_sum(labels) * tf.reduce_sum(table) * 0
        return EstimatorSpec(mode, loss=loss, train_op=v1.train.get_global_step().assign_add(1))

    old = estimator(tmp_path / "old").train(forever, steps=3)
    info = VocabInfo(str(tmp_path / "new.txt"), 3, 0, str(tmp_path / "old.txt"), -1, v1.zeros_initializer())
    settings = WarmStartSettings(str(tmp_path / "old"), var_name_to_vocab_info={"w": info})
    new = Estimator(rows, str(tmp_path / "new"), old.config.replace(model_dir=None), warm_start_from=settings)
    x, y = weights_of(old)
    assert weights_of(new.train(forever, steps=1)).tolist() == [y, 0.0, x]


def test_point_64_a_saved_model_is_a_source_too(tmp_path):
    def receiver():
        features = {"x": v1.placeholder(tf.float32, [None, 2])}
        return ServingInputReceiver(features, features)

    old = estimator(tmp_path / "old").train(forever, steps=3)
    path = old.export_saved_model(str(tmp_path / "export"), receiver)
    settings = warm_start_settings(path)
    assert settings == (f"{path.decode()}/variables/variables", ".*", {}, {})
    config = old.config.replace(model_dir=None)
    new = Estimator(model_fn, str(tmp_path / "new"), config, warm_start_from=path)
    assert new.evaluate(once)["loss"] == pytest.approx(old.evaluate(once)["loss"])


def test_settings_need_a_source():
    for nothing in (None, ""):
        with pytest.raises(ValueError, match="needs ckpt_to_initialize_from"):
            WarmStartSettings(nothing)


def test_settings_have_the_classic_fields_and_defaults():
    settings = WarmStartSettings("/old")
    assert settings._asdict() == {
        "ckpt_to_initialize_from": "/old",
        "vars_to_warm_start": ".*",
        "var_name_to_vocab_info": {},
        "var_name_to_prev_var_name": {},
    }
    assert warm_start_settings(settings) is settings and warm_start_settings(None) is None
    assert warm_start_settings("/old") == settings


def test_another_source_is_refused(tmp_path):
    with pytest.raises(ValueError, match="warm_start_from=3 must be a path or WarmStartSettings, not int"):
        Estimator(values(), str(tmp_path), warm_start_from=3)
