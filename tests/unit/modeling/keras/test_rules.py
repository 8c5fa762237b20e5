"""The update rules of Keras optimizers, carried to graphs, against Keras's own `apply`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.modeling.keras.rules import UpdateRules, trace_rules

RANDOM = np.random.RandomState(0)
STARTS = {
    name: np.asarray(RANDOM.randn(*shape), np.float32)
    for name, shape in {"kernel": (5, 3), "bias": (3,), "embeddings": (9, 2), "gamma": (4,), "scalar": ()}.items()
}
STEPS, FIRST = 6, 2
GRADIENTS = [
    {name: np.asarray(3 * RANDOM.randn(*value.shape), np.float32) for name, value in STARTS.items()}
    for _ in range(STEPS)
]
PS = (["kernel", "gamma"], ["bias", "embeddings", "scalar"])

KO, S = keras.optimizers, keras.optimizers.schedules


@tf.function(reduce_retracing=True)
def mix(old: Any, new: Any) -> Any:
    return 0.5 * old + tf.sign(new)


class Own(keras.optimizers.Optimizer):
    """An optimizer of a user, without get_config, with a function of TensorFlow and a counter inside."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.signs = [self.add_variable_from_reference(one, name="signs") for one in variables]
        self.calls = keras.Variable(1.0)

    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
        self.assign_add(self.calls, 1.0)
        super()._backend_update_step(grads, trainable_variables, learning_rate)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        signs = self.signs[self._get_variable_index(variable)]
        mixed = mix(signs.value, gradient)
        self.assign(signs, mixed)
        self.assign_sub(variable, learning_rate * mixed / self.calls)


class OwnSchedule(S.LearningRateSchedule):
    """A schedule of a user, without get_config."""

    def __call__(self, step: Any) -> Any:
        return keras.ops.cond(step > 2, lambda: 0.05, lambda: 0.1 / (1.0 + keras.ops.cast(step, "float32")))


def without_decay_of_some() -> Any:
    made = KO.AdamW(0.1, weight_decay=0.1)
    made.exclude_from_weight_decay(var_names=["bias", "gamma"])
    return made


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: KO.SGD(0.1),
    "momentum": lambda: KO.SGD(0.1, momentum=0.9),
    "nesterov": lambda: KO.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: KO.Adam(0.1),
    "amsgrad": lambda: KO.Adam(0.1, amsgrad=True),
    "AdamW": without_decay_of_some,
    "Adagrad": lambda: KO.Adagrad(0.1),
    "RMSprop": lambda: KO.RMSprop(0.1, centered=True, momentum=0.5),
    "Adadelta": lambda: KO.Adadelta(0.1),
    "Adamax": lambda: KO.Adamax(0.1),
    "Nadam": lambda: KO.Nadam(0.1),
    "Ftrl": lambda: KO.Ftrl(0.1, l1_regularization_strength=0.01),
    "Lion": lambda: KO.Lion(0.1),
    "Lamb": lambda: KO.Lamb(0.1),
    "Muon": lambda: KO.Muon(0.1),
    "Adafactor": lambda: KO.Adafactor(0.1),
    "own": lambda: Own(learning_rate=0.1),
    "clipnorm": lambda: KO.Adam(0.1, clipnorm=1.0),
    "clipvalue": lambda: KO.Adam(0.1, clipvalue=0.5),
    "global_clipnorm": lambda: KO.Adam(0.1, global_clipnorm=1.0),
    "loss_scale_factor": lambda: KO.SGD(0.1, momentum=0.9, global_clipnorm=0.7, loss_scale_factor=8.0),
    "weight_decay": lambda: KO.SGD(0.1, weight_decay=0.1),
    "use_ema": lambda: KO.Adam(0.1, use_ema=True, ema_momentum=0.8),
    "ema_overwrite": lambda: KO.SGD(0.1, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3),
    "accumulation": lambda: KO.Adam(0.1, gradient_accumulation_steps=2),
    "accumulation_and_more": lambda: KO.SGD(
        0.1, 0.5, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=2, clipnorm=1.0
    ),
    "cosine": lambda: KO.Adam(S.CosineDecay(0.1, 5, warmup_steps=2, warmup_target=0.3)),
    "pieces": lambda: KO.Adam(S.PiecewiseConstantDecay([2, 4], [0.1, 0.05, 0.01])),
    "own_schedule": lambda: KO.Adafactor(OwnSchedule()),
    "rate_function": lambda: KO.SGD(lambda: 0.3),
}


def keras_variables() -> dict[str, Any]:
    found = {name: keras.Variable(value, name=name) for name, value in STARTS.items()}
    found["kernel"].constraint = keras.constraints.MaxNorm(1.5)
    found["bias"].constraint = keras.constraints.NonNeg()
    return found


def applied(optimizer: Any, steps: int) -> dict[str, Any]:
    """Returns variables after some of Keras's own updates."""
    variables = keras_variables()
    optimizer.build(list(variables.values()))
    for gradient in GRADIENTS[:steps]:
        optimizer.apply([tf.constant(gradient[name]) for name in variables], list(variables.values()))
    return variables


def numpy(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: variable.numpy() for name, variable in variables.items()}


def updated(rules: UpdateRules, starts: Mapping[str, Any], gradients: Any, factor: float = 1.0) -> dict[str, Any]:
    """Returns all variables of a graph with an optimizer for each ps, after updates."""
    with tf.Graph().as_default():
        made = {name: v1.get_variable(name, initializer=value, use_resource=True) for name, value in starts.items()}
        step = v1.placeholder(tf.int64, [])
        feeds = {name: v1.placeholder(tf.float32, value.shape) for name, value in starts.items()}
        ready = rules.on_worker(feeds)
        updates = [
            rules.optimizer(factor, step).apply_gradients([(ready[name], made[name]) for name in part]) for part in PS
        ]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for number, gradient in enumerate(gradients):
                session.run(updates, {step: number, **{feeds[name]: gradient[name] for name in feeds}})
            return session.run({one.op.name: one for one in v1.global_variables()})


def assert_equal(found: Mapping[str, Any], right: Mapping[str, Any]) -> None:
    for name, value in right.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_on_two_ps_go_on_from_those_of_keras_and_equal_them(name: str) -> None:
    right = numpy(applied(OPTIMIZERS[name](), STEPS))
    optimizer = OPTIMIZERS[name]()
    variables = applied(optimizer, FIRST)
    before = numpy(variables), [one.numpy() for one in optimizer.variables], type(optimizer), optimizer.learning_rate
    rules = trace_rules(optimizer, list(variables.values()), list(variables))
    assert_equal(variables, before[0])
    for one, value in zip(optimizer.variables, before[1], strict=True):
        np.testing.assert_array_equal(one.numpy(), value)
    assert type(optimizer) is before[2]
    assert_equal(updated(rules, before[0], GRADIENTS[FIRST:]), right)


def test_slots_have_readable_names_and_go_back_to_the_optimizer() -> None:
    right = KO.Nadam(0.1)
    applied(right, STEPS)
    optimizer = KO.Nadam(0.1)
    variables = applied(optimizer, FIRST)
    rules = trace_rules(optimizer, list(variables.values()), list(variables))
    found = updated(rules, numpy(variables), GRADIENTS[FIRST:])
    assert {"kernel/momentum", "kernel/velocity", "kernel/u_product", "learning_rate"} <= found.keys()
    for (name, slot), home in rules.homes.items():
        home.assign(found[f"{name}/{slot}"])
    for one, other in zip(optimizer.variables[2:], right.variables[2:], strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-6)


def test_bytes_serve_a_process_without_keras(tmp_path: Any) -> None:
    optimizer = KO.Adam(S.ExponentialDecay(0.1, 2, 0.5), amsgrad=True)
    variables = applied(optimizer, FIRST)
    rules = trace_rules(optimizer, list(variables.values()), list(variables))
    values = numpy(variables)
    (tmp_path / "rules").write_bytes(rules.to_bytes())
    np.savez(tmp_path / "in.npz", **values, **{f"g/{name}": one for name, one in GRADIENTS[FIRST].items()})
    program = f"""
import sys, numpy as np
from ps_train.base.tf_import import import_tensorflow
import_tensorflow(verbose=False)
import tensorflow as tf
from ps_train.modeling.keras.rules import UpdateRules
v1, given = tf.compat.v1, np.load({str(tmp_path / "in.npz")!r})
rules = UpdateRules.from_bytes(open({str(tmp_path / "rules")!r}, "rb").read())
with tf.Graph().as_default(), v1.Session() as session:
    made = [v1.get_variable(name, initializer=given[name], use_resource=True) for name in rules.rules]
    update = rules.optimizer(1.0, tf.constant(0, tf.int64)).apply_gradients(
        [(tf.constant(given["g/" + one.op.name]), one) for one in made])
    session.run(v1.global_variables_initializer())
    session.run(update)
    np.savez({str(tmp_path / "out.npz")!r}, **session.run({{one.op.name: one for one in made}}))
print(sorted(name for name in sys.modules if name.split(".")[0] == "keras"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    with np.load(tmp_path / "out.npz") as found:
        assert_equal(dict(found), numpy(applied(KO.Adam(S.ExponentialDecay(0.1, 2, 0.5), amsgrad=True), FIRST + 1)))


def test_the_rate_is_a_variable_of_each_ps_and_has_a_factor() -> None:
    optimizer = KO.SGD(0.5)
    variables = applied(optimizer, 0)
    optimizer.learning_rate = 0.25
    rules = trace_rules(optimizer, list(variables.values()), list(variables))
    assert (rules.initial_rate, rules.is_scheduled) == (0.25, False)
    found = updated(rules, STARTS, GRADIENTS[:1], factor=0.5)
    np.testing.assert_allclose(found["gamma"], STARTS["gamma"] - 0.125 * GRADIENTS[0]["gamma"], rtol=1e-6)
    assert found["learning_rate"] == found["learning_rate_1"] == np.float32(0.25)  # one for each ps, in one graph


def test_a_schedule_has_no_variable() -> None:
    optimizer = KO.SGD(S.ExponentialDecay(0.5, 1, 0.5))
    variables = applied(optimizer, 1)
    rules = trace_rules(optimizer, list(variables.values()), list(variables))
    assert (rules.initial_rate, rules.is_scheduled) == (0.25, True)
    assert "learning_rate" not in updated(rules, STARTS, GRADIENTS[:1])


def test_accumulation_with_a_norm_of_all_gradients_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"gradient_accumulation_steps=2, global_clipnorm=1\.0") as error:
        variables = keras_variables()
        trace_rules(KO.Adam(0.1, gradient_accumulation_steps=2, global_clipnorm=1.0), list(variables.values()), [])
    assert "\n" not in str(error.value)
