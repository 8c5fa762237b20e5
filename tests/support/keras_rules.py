"""Optimizers of Keras, with the values that variables have after some of their updates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.keras.rules import UpdateRules, trace_rules

RANDOM = np.random.RandomState(0)
STARTS = {
    name: np.asarray(RANDOM.randn(*shape), np.float32)
    for name, shape in {"kernel": (5, 3), "bias": (3,), "embeddings": (9, 2), "gamma": (4,), "scalar": ()}.items()
}
STEPS, FIRST = 5, 2
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


FURTHER = [
    "amsgrad",
    "Adadelta",
    "Adamax",
    "Lion",
    "nesterov",
    "pieces",
    "own_schedule",
    "clipvalue",
    "Adagrad",
    "Muon",
]
NAMES = sorted(OPTIMIZERS, key=lambda name: name in FURTHER)


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


def traced(optimizer: Any, steps: int = FIRST) -> tuple[UpdateRules, dict[str, Any]]:
    """Returns the rules of an optimizer after some updates, and the variables then."""
    variables = applied(optimizer, steps)
    return trace_rules(optimizer, list(variables.values()), list(variables)), variables


@functools.cache
def traced_by_name(name: str) -> tuple[UpdateRules, dict[str, Any]]:
    rules, variables = traced(OPTIMIZERS[name]())
    return rules, numpy(variables)


ROWS, IDS = 9, [6, 0, 3]
NOT_BY_ROW = ["Lamb", "Muon", "Adafactor", "clipnorm", "use_ema", "ema_overwrite", "own_schedule"]
NOT_BY_ROW += ["accumulation", "accumulation_and_more"]
BY_ROW = [name for name in NAMES if name not in NOT_BY_ROW]


def rows_updated(rules: UpdateRules, start: Any, rows: Any, ids: Any = IDS) -> tuple[dict[str, Any], set[str]]:
    """Returns all variables after an update of some rows, and the operations on the table."""
    with tf.Graph().as_default():
        table = v1.get_variable("embeddings", initializer=start, use_resource=True)
        gradient = tf.IndexedSlices(tf.constant(rows), tf.constant(ids), tf.constant([ROWS, 2]))
        optimizer = rules.optimizer(1.0, tf.constant(0, tf.int64))
        first = {op.name for op in v1.get_default_graph().get_operations()}
        update = optimizer.apply_gradients([(gradient, table)])
        used = {op.type for op in table.handle.consumers() if op.name not in first}
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(update)
            return session.run({one.op.name: one for one in v1.global_variables()}), used
