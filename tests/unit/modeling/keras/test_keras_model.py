"""A compiled Keras model by `--model`: how it is found, which data it has, and what is refused."""

from __future__ import annotations

import pathlib
import sys
import textwrap
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError
from ps_train.base.user_code import UserCodeError
from ps_train.config.job import Job
from ps_train.modeling.keras.eager_thread import eagerly
from ps_train.modeling.keras.keras_model import KerasModel
from ps_train.modeling.load_model import load_model, use_flags

MODULE = """
    import keras
    import ps_train
    from ps_train.modeling.keras.keras_model import KerasModel

    def data(split, data_dir):
        return ps_train.Arrays([[1.0]] * 4, [[2.0]] * 4)

    def net(units: int = 3, rate: float = 0.5):
        network = keras.Sequential([keras.Input((1,)), keras.layers.Dense(units)])
        network.compile(keras.optimizers.SGD(rate), "mse")
        return network

    def other():
        return KerasModel(net(5), lambda split, data_dir: (split, data_dir))

    class Own(KerasModel):
        def __init__(self, units: int = 7):
            self.units = units

        def keras_model(self):
            return net(self.units)

        def data(self, split, data_dir):
            return split

    class WithoutData(KerasModel):
        def keras_model(self):
            return net()

    class Fails(WithoutData):
        def keras_model(self):
            raise ZeroDivisionError("of the user")

    def uncompiled():
        return keras.Sequential([keras.layers.Dense(1)])

    def number():
        return 3
"""


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    name = f"keras_of_user_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE))
    return name


def test_a_function_gives_the_model_and_another_one_the_data(module: str) -> None:
    model: Any = load_model(f"{module}:net", {"units": "4", "rate": "0.25"})
    assert isinstance(model, KerasModel) and model.network.output_shape == (None, 4)
    assert model.default_learning_rate == 0.25 and len(model.data("train", "")) == 4


def test_a_function_or_a_subclass_gives_both(module: str) -> None:
    model: Any = load_model(f"{module}:other", {})
    assert model.network.output_shape == (None, 5) and model.data("test", "here") == ("test", "here")
    model = load_model(f"{module}:Own", {"units": "2"})
    assert model.network is model.network and model.network.output_shape == (None, 2)
    assert model.data("train", "") == "train"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uncompiled", r"model sequential\w* of KerasModel is not compiled: call its compile\(\) before"),
        ("number", r"the function returned int 3: return a compiled keras\.Model, or name a subclass"),
        ("WithoutData", r"model sequential\w* of WithoutData has no data: define data\(split, data_dir\) beside"),
        ("missing", r"has no 'missing'; its models: .*Own, WithoutData, Fails"),
    ],
)
def test_what_is_no_compiled_model_with_data_is_an_error(module: str, name: str, text: str) -> None:
    with pytest.raises(ModelError, match=text):
        load_model(f"{module}:{name}", {})


def test_an_error_of_the_users_names_the_line(module: str) -> None:
    with pytest.raises(
        UserCodeError, match=r"keras_model\(\) raised ZeroDivisionError: of the user \(.*line 33, in keras_model: "
    ):
        load_model(f"{module}:Fails", {})


def model_of(**options: Any) -> KerasModel:
    network = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    network.compile(**{"optimizer": "sgd", "loss": "mse", **options})
    return KerasModel(network, lambda split, data_dir: None)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"optimizer": "adam"}, "optimizer=adam is not possible with KerasModel: the model's compile"),
        ({"accumulate": 2}, "accumulate=2 .*gradient_accumulation_steps"),
        ({"compute_dtype": "bfloat16"}, "compute_dtype=bfloat16 .*keras.mixed_precision"),
        ({"towers": "2"}, "towers=2 .*one device"),
    ],
)
def test_flags_that_compile_gives_are_refused(flags: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        use_flags(model_of(), Job(**flags))
    use_flags(model_of(), Job(learning_rate=0.5, l2=0.1, keras_tables="dense"))


@pytest.mark.parametrize("flags", [{"local_steps": "4"}, {"update": "sync", "outer_optimizer": "elastic"}])
def test_averages_and_values_that_follow_from_slots_need_every_step(flags: dict[str, Any]) -> None:
    for optimizer, why in (
        (keras.optimizers.SGD(0.1, use_ema=True), r"use_ema=True .*compile it without"),
        (keras.optimizers.Ftrl(0.1), r"its optimizer Ftrl computes each weight .*compile it with Adagrad"),
    ):
        with pytest.raises(ConfigError, match=rf"is not possible with KerasModel: {why}"):
            use_flags(model_of(optimizer=optimizer), Job(**flags))
    use_flags(model_of(), Job(**flags))


def test_a_schedule_takes_no_learning_rate() -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.5)
    model = model_of(optimizer=keras.optimizers.SGD(schedule))
    assert model.default_learning_rate == 1.0
    with pytest.raises(ConfigError, match=r"learning_rate=0.1 is not possible .* has a schedule"):
        use_flags(model, Job(learning_rate=0.1))


def test_a_loss_scale_optimizer_may_skip() -> None:
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.25))
    model = model_of(optimizer=optimizer)
    assert model.may_skip and model.default_learning_rate == 0.25
    assert not model_of().may_skip


def test_a_multi_output_model_predicts_by_name() -> None:
    x = keras.Input((2,))
    network = keras.Model(x, [keras.layers.Dense(1, name="a")(x), keras.layers.Dense(3, name="b")(x)])
    network.compile("sgd", "mse")
    model = KerasModel(network, lambda split, data_dir: None)
    given, weights = np.ones((4, 2), np.float32), {one.path: one.numpy() for one in network.weights}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = tf.compat.v1.placeholder(tf.float32, [None, 2])
        found = model.predictions(model.forward(features, False))
        assert {name: one.shape.as_list() for name, one in found.items()} == {"a": [None, 1], "b": [None, 3]}
        session.run(tf.compat.v1.global_variables_initializer())
        for one in tf.compat.v1.global_variables():
            one.load(weights[one.op.name], session)
        values = session.run(found, {features: given})
    for value, expected in zip(values.values(), network.predict(given, verbose=0), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_code_runs_eagerly_while_a_graph_is_built() -> None:
    with tf.Graph().as_default():
        assert not tf.executing_eagerly()
        assert eagerly(tf.executing_eagerly)
        assert eagerly(lambda: int(tf.constant(3).numpy())) == 3
        with pytest.raises(ZeroDivisionError):
            eagerly(lambda: 1 // 0)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        assert eagerly(lambda: keras.config.dtype_policy().name) == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")
