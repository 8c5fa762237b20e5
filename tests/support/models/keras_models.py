"""Compiled Keras models of many kinds, each with data, and fits of them in one process.

    fit = KERAS_FITS["attention"]()
    expected = by_keras(fit, steps=50)
    found = by_cluster(KERAS_FITS["attention"](), 50, num_ps=2, num_workers=1)

A maker returns the same model with the same data at each call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ps_train.data.sent.sent_data import sent_data
from ps_train.modeling.keras.names import keyed_slots, keyed_variables
from ps_train.modeling.keras.sent_model import TracedKerasModel
from ps_train.modeling.keras.traced_step import build, trace_step
from tests.support.clusters.cluster import InProcessCluster

L = keras.layers
EXAMPLES = 48
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@dataclasses.dataclass
class KerasFit:
    """A compiled model and the data for `fit`."""

    model: Any
    x: Any
    y: Any = None
    sample_weight: Any = None
    class_weight: Any = None
    batch_size: int = 8


class _TracedFit(TracedKerasModel):
    def __init__(self, step: Any, data: Any, deals: bool) -> None:
        super().__init__(step)
        self._data, self._deals = data, deals

    def data(self, split: str, data_dir: str) -> Any:
        return self.batches_of(self._data, self._deals) if split == "train" else None


def by_keras(fit: KerasFit, steps: int) -> dict[str, np.ndarray]:
    """Returns the values of model and optimizer after so many steps of `model.fit`, by their keys."""
    epochs = steps // (-(-_count(fit) // fit.batch_size))
    fit.model.fit(
        fit.x, fit.y, fit.batch_size, epochs, verbose=0, shuffle=False, class_weight=fit.class_weight,
        sample_weight=fit.sample_weight,
    )  # fmt: skip
    return values_of(fit.model)


def values_of(model: Any) -> dict[str, np.ndarray]:
    """Returns the values of a model and its optimizer, by their keys; texts are left out."""
    found = {**keyed_variables(model), **keyed_slots(model)}
    return {key: np.asarray(one.numpy(), np.float64) for key, one in found.items() if one.dtype != "string"}


def by_cluster(fit: KerasFit, steps: int, num_ps: int, num_workers: int, **fields: Any) -> dict[str, np.ndarray]:
    """Returns the values on the ps after so many steps of each of the workers together, under sync."""
    data = sent_data(
        fit.x, fit.y, fit.sample_weight, batch_size=fit.batch_size, shuffle=False, class_weight=fit.class_weight
    )
    build(fit.model, data.element_spec)
    step = trace_step(fit.model, data.element_spec)
    cluster = InProcessCluster(
        _TracedFit(step, data, deals=False), num_ps, num_workers, update="sync", batch_size=1, **fields
    )
    cluster.start()
    cluster.train(steps, run=6)
    assert cluster.global_step() == steps
    return {key: np.asarray(value, np.float64) for key, value in cluster.values().items() if value.dtype != object}


def assert_equal_values(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], atol: float) -> None:
    """Compares the values that the ps have; those that no step uses stay with the model, and some rules have fewer."""
    compared = [key for key in expected if key in found]
    for key in compared:
        np.testing.assert_allclose(found[key], expected[key], rtol=atol, atol=atol, err_msg=key)
    assert compared, "the ps have none of the values"


def _count(fit: KerasFit) -> int:
    return len(tf.nest.flatten(fit.x)[0])


def _numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(EXAMPLES, *shape)).astype(np.float32)


def _whole(below: int, *shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, below, (EXAMPLES, *shape)).astype(np.int32)


def _weights(seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=EXAMPLES).astype(np.float32)


def dense(optimizer: Any = None) -> KerasFit:
    """Layers without randomness, whose optimizer may be any."""
    model = keras.Sequential(
        [
            keras.Input((8,)),
            L.Dense(16, activation="tanh"),
            L.LayerNormalization(),
            L.Dense(3, kernel_constraint="non_neg"),
        ]
    )  # fmt: skip
    model.compile(optimizer or keras.optimizers.Adam(0.01), LOGITS, metrics=["accuracy"])
    return KerasFit(model, _numbers(8), _whole(3))


def normalized() -> KerasFit:
    """Moving averages, masks of dropout with and without a seed of their own."""
    model = keras.Sequential(
        [
            keras.Input((8,)), L.Dense(16, activation="relu"), L.BatchNormalization(), L.Dropout(0.2, seed=3),
            L.GaussianNoise(0.1), L.Dense(3),
        ]
    )  # fmt: skip
    model.compile(keras.optimizers.Adam(0.01), LOGITS, metrics=["accuracy"])
    return KerasFit(model, _numbers(8), _whole(3))


class Recurrent(keras.Model):
    """A model that only its code describes: no get_config, layers that are built at the first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.frozen = L.Embedding(40, 6, mask_zero=True), L.Dense(6, trainable=False)
        self.steps, self.norm, self.drop = L.LSTM(5), L.BatchNormalization(), L.Dropout(0.3, seed=4)
        self.out = L.Dense(3)
        self.reversed = L.Lambda(
            lambda x: tf.custom_gradient(lambda q: (tf.identity(q), lambda gradient: -0.5 * gradient))(x) * 2
        )

    def call(self, x: Any, training: bool = False) -> Any:
        hidden = self.reversed(self.steps(self.frozen(self.rows(x))))
        self.add_loss(0.01 * keras.ops.mean(hidden**2))
        return self.out(self.drop(self.norm(hidden, training=training), training=training))


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step: Any) -> Any:
        return 0.1 / (1.0 + 0.1 * keras.ops.cast(step, "float32"))


def recurrent() -> KerasFit:
    """A subclass with an LSTM behind a mask, a frozen layer, a gradient, a loss and a schedule of its own."""
    model = Recurrent()
    model.compile(
        keras.optimizers.SGD(_Schedule(), momentum=0.9), lambda y, p: LOGITS(y, p) * 1.5, metrics=["accuracy"]
    )
    return KerasFit(model, _whole(40, 7), _whole(3))


class Watched(keras.Layer):
    """A layer that adds a loss and keeps a metric."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = keras.metrics.Mean(name="seen")

    def call(self, x: Any) -> Any:
        self.add_loss(0.01 * keras.ops.mean(keras.ops.square(x)))
        self.seen.update_state(keras.ops.mean(x))
        return x


def two_outputs() -> KerasFit:
    """Two inputs and two outputs, losses and metrics of each with weights of examples, regularizers."""
    numbers, ids = keras.Input((4,), name="numbers"), keras.Input((3,), dtype="int32", name="ids")
    rows = L.Flatten()(L.Embedding(20, 4, embeddings_regularizer="l2")(ids))
    regularizer = keras.regularizers.L1L2(1e-3, 1e-2)
    hidden = L.Dense(8, activation="relu", kernel_regularizer=regularizer, activity_regularizer="l2")(numbers)
    hidden = Watched()(L.Concatenate()([hidden, rows]))
    outputs = {
        "kind": L.Dense(3, name="kind")(hidden),
        "flag": L.Dense(1, activation="sigmoid", name="flag")(hidden),
    }
    model = keras.Model([numbers, ids], outputs)
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        loss={"kind": LOGITS, "flag": "binary_crossentropy"},
        loss_weights={"kind": 0.7, "flag": 2.0},
        metrics={"kind": ["accuracy"], "flag": [keras.metrics.AUC(num_thresholds=50, name="auc")]},
        weighted_metrics={"kind": [keras.metrics.MeanIoU(3, sparse_y_pred=False, name="iou")]},
    )
    labels = {"kind": _whole(3), "flag": _whole(2, 1).astype(np.float32)}
    return KerasFit(
        model, {"numbers": _numbers(4), "ids": _whole(20, 3)}, labels, {"kind": _weights(), "flag": _weights(3)}
    )


def weighted() -> KerasFit:
    """Weights of classes."""
    return dataclasses.replace(dense(), class_weight={0: 0.5, 1: 2.0, 2: 1.0})


def weighted_examples() -> KerasFit:
    """Weights of examples."""
    return dataclasses.replace(dense(), sample_weight=_weights())


class OwnStep(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.drop, self.out = L.Dense(9, "relu"), L.Dropout(0.3, seed=4), L.Dense(3)
        self.mine = keras.metrics.Mean(name="mine")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.out(self.drop(self.hidden(x), training=training))

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            outputs = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=outputs) * 1.5
        variables = self.trainable_variables
        gradients = [tf.clip_by_norm(one, 1.0) for one in tape.gradient(loss, variables)]
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        self.mine.update_state(loss)
        self.metrics[0].update_state(loss)
        return {**self.compute_metrics(x, y, outputs), "mine": self.mine.result()}


def own_step() -> KerasFit:
    """A `train_step` of the model's own."""
    model = OwnStep()
    rate = keras.optimizers.schedules.CosineDecay(0.05, 40)
    model.compile(keras.optimizers.Adam(rate, clipnorm=1.0), LOGITS, metrics=["accuracy"])
    return KerasFit(model, _numbers(8), _whole(3))


def _with_policy(name: str) -> KerasFit:
    keras.mixed_precision.set_global_policy(name)
    try:
        model = keras.Sequential(
            [keras.Input((8,)), L.Dense(16, activation="relu"), L.BatchNormalization(), L.Dense(3, dtype="float32")]
        )
        model.compile("adam", LOGITS, metrics=["accuracy"])
    finally:
        keras.mixed_precision.set_global_policy("float32")
    return KerasFit(model, _numbers(8), _whole(3))


def bfloat16() -> KerasFit:
    """The policy mixed_bfloat16."""
    return _with_policy("mixed_bfloat16")


def float16() -> KerasFit:
    """The policy mixed_float16, whose optimizer scales the loss."""
    return _with_policy("mixed_float16")


def float64() -> KerasFit:
    """Variables and a learning rate of float64."""
    keras.backend.set_floatx("float64")
    try:
        model = keras.Sequential([keras.Input((8,)), L.Dense(9, "tanh"), L.BatchNormalization(), L.Dense(3)])
        model.compile(keras.optimizers.Adam(0.01), LOGITS, metrics=["accuracy"])
    finally:
        keras.backend.set_floatx("float32")
    return KerasFit(model, _numbers(8).astype(np.float64), _whole(3))


def words() -> KerasFit:
    """A vocabulary, and numbers that are normalized, inside the model."""
    word, numbers = keras.Input((1,), dtype="string"), keras.Input((4,))
    lookup = L.StringLookup(vocabulary=["a", "bb", "c"])
    normalization = L.Normalization()
    normalization.adapt(_numbers(4))
    rows = L.Flatten()(L.Embedding(lookup.vocabulary_size(), 4)(lookup(word)))
    model = keras.Model([word, numbers], L.Dense(1)(L.Concatenate()([rows, normalization(numbers)])))
    model.compile("sgd", "mse")
    texts = np.array(["a", "bb", "zz", "c", ""])[_whole(5, 1)]
    return KerasFit(model, [tf.constant(texts), _numbers(4)], _numbers(1))


def attention() -> KerasFit:
    """Layers that are used twice, a model within a model, attention, a recurrent layer in two directions."""
    tokens, others = keras.Input((6,), dtype="int32"), keras.Input((6,), dtype="int32")
    rows = L.Embedding(30, 8)
    inner_input = keras.Input((6, 8))
    mixed = L.MultiHeadAttention(2, 4, dropout=0.1, seed=5)(inner_input, inner_input)
    inner = keras.Model(inner_input, L.LayerNormalization()(inner_input + mixed), name="inner")
    both = L.Concatenate()([inner(rows(tokens)), inner(rows(others))])
    model = keras.Model([tokens, others], L.Dense(3)(L.Bidirectional(L.GRU(4, recurrent_dropout=0.1, seed=6))(both)))
    # Not Adam: Keras does not add up the gradients of an id that a batch repeats.
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9), LOGITS, metrics=["accuracy"])
    return KerasFit(model, [_whole(30, 6), _whole(30, 6, seed=7)], _whole(3))


def large_table() -> KerasFit:
    """A table of which only rows travel, in whose batches no id repeats."""
    ids, others = keras.Input((4,), dtype="int32"), keras.Input((2,), dtype="int32")
    rows = L.Embedding(20_000, 16)
    flat = L.Concatenate()([L.Flatten()(rows(ids)), L.Flatten()(rows(others))])
    model = keras.Model([ids, others], L.Dense(1)(flat))
    model.compile(keras.optimizers.Adagrad(0.1), "mse")
    given = np.random.default_rng(0).permutation(20_000)[: 6 * EXAMPLES].reshape(EXAMPLES, 6).astype(np.int32)
    return KerasFit(model, [given[:, :4], given[:, 4:]], _numbers(1))


def residual(blocks: int = 1) -> KerasFit:
    """A ResNet of 6 * blocks + 2 layers for images 16x16x3."""
    inputs = keras.Input((16, 16, 3))

    def layer(x: Any, filters: int, strides: int = 1) -> Any:
        x = L.Conv2D(filters, 3, strides, "same", use_bias=False, kernel_initializer="he_normal")(x)
        return L.BatchNormalization()(x)

    x = L.ReLU()(layer(L.RandomFlip("horizontal", seed=1)(inputs), 8))
    for filters in (8, 16, 32):
        for block in range(blocks):
            strides = 2 if filters > 8 and not block else 1
            y = layer(L.ReLU()(layer(x, filters, strides)), filters)
            x = L.Conv2D(filters, 1, strides, "same")(x) if strides > 1 else x
            x = L.ReLU()(x + y)
    model = keras.Model(inputs, L.Dense(3)(L.GlobalAveragePooling2D()(x)))
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), LOGITS, metrics=["accuracy"])
    return KerasFit(model, _numbers(16, 16, 3), _whole(3))


def _seeded(make: Callable[[], KerasFit]) -> Callable[[], KerasFit]:
    def made() -> KerasFit:
        keras.backend.clear_session()  # equal names, and so equal keys
        keras.utils.set_random_seed(1)
        return make()

    return made


KERAS_FITS: Mapping[str, Callable[[], KerasFit]] = {
    make.__name__: _seeded(make)
    for make in (
        recurrent, two_outputs, own_step, residual, dense, normalized, weighted, weighted_examples, bfloat16, float16,
        float64, words, attention, large_table,
    )
}  # fmt: skip

_O = keras.optimizers
OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "SGD": lambda: _O.SGD(0.1),
    "momentum": lambda: _O.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: _O.Adam(0.01),
    "amsgrad": lambda: _O.Adam(0.01, amsgrad=True),
    "AdamW": lambda: _O.AdamW(0.01, weight_decay=0.1),
    "Adagrad": lambda: _O.Adagrad(0.1),
    "RMSprop": lambda: _O.RMSprop(0.01, centered=True, momentum=0.5),
    "Adadelta": lambda: _O.Adadelta(0.1),
    "Adamax": lambda: _O.Adamax(0.01),
    "Nadam": lambda: _O.Nadam(0.01),
    "Ftrl": lambda: _O.Ftrl(0.1, l1_regularization_strength=0.01),
    "Lion": lambda: _O.Lion(0.001),
    "Lamb": lambda: _O.Lamb(0.01),
    "Muon": lambda: _O.Muon(0.01),
    "Adafactor": lambda: _O.Adafactor(0.01),
    "global_clipnorm": lambda: _O.Adam(0.01, global_clipnorm=0.1),
    "clipnorm": lambda: _O.Adam(_O.schedules.ExponentialDecay(0.01, 10, 0.9), clipnorm=0.1),
    "accumulation": lambda: _O.Adam(0.01, gradient_accumulation_steps=3),
    "LossScale": lambda: _O.LossScaleOptimizer(_O.Adam(0.01), initial_scale=8.0, dynamic_growth_steps=7),
}


def dense_with(optimizer: str) -> KerasFit:
    """The model `dense` with an optimizer by its name here."""
    return _seeded(lambda: dense(OPTIMIZERS[optimizer]()))()
