"""The update rules of Keras optimizers, carried to graphs, against Keras's own `apply`."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, ModelError
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


def traced(optimizer: Any, steps: int = FIRST) -> tuple[UpdateRules, dict[str, Any]]:
    """Returns the rules of an optimizer after some updates, and the variables then."""
    variables = applied(optimizer, steps)
    return trace_rules(optimizer, list(variables.values()), list(variables)), variables


@functools.cache
def traced_by_name(name: str) -> tuple[UpdateRules, dict[str, Any]]:
    rules, variables = traced(OPTIMIZERS[name]())
    return rules, numpy(variables)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_on_two_ps_go_on_from_those_of_keras_and_equal_them(name: str) -> None:
    right = numpy(applied(OPTIMIZERS[name](), STEPS))
    rules, start = traced_by_name(name)
    assert_equal(updated(rules, start, GRADIENTS[FIRST:]), right)


@pytest.mark.parametrize("name", ["Nadam", "accumulation_and_more", "own"])
def test_the_optimizer_and_the_variables_are_as_before(name: str) -> None:
    optimizer = OPTIMIZERS[name]()
    variables = applied(optimizer, FIRST)
    state = [*variables.values(), *optimizer.variables]
    before, kind, rate = [one.numpy() for one in state], type(optimizer), optimizer.learning_rate
    trace_rules(optimizer, list(variables.values()), list(variables))
    for one, value in zip(state, before, strict=True):
        np.testing.assert_array_equal(one.numpy(), value)
    assert type(optimizer) is kind and optimizer.learning_rate is rate


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


ROWS, IDS = 9, [6, 0, 3]
NOT_BY_ROW = ["Lamb", "Muon", "Adafactor", "clipnorm", "use_ema", "ema_overwrite", "own_schedule"]
NOT_BY_ROW += ["accumulation", "accumulation_and_more"]
BY_ROW = [name for name in OPTIMIZERS if name not in NOT_BY_ROW]


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


@pytest.mark.parametrize("name", BY_ROW)
def test_rows_with_a_gradient_are_updated_as_by_keras_and_others_stay(name: str) -> None:
    rules, values = traced_by_name(name)
    start, optimizer = values["embeddings"], OPTIMIZERS[name]()
    dense = applied(optimizer, FIRST)
    gradient = np.zeros_like(start)
    gradient[IDS] = GRADIENTS[FIRST]["embeddings"][IDS]
    given = [tf.constant(gradient if one == "embeddings" else np.zeros_like(STARTS[one])) for one in dense]
    optimizer.apply(given, list(dense.values()))
    rows = rules.on_worker({"embeddings": tf.constant(gradient[IDS])})["embeddings"].numpy()
    found, used = rows_updated(rules, start, rows)
    others = [row for row in range(ROWS) if row not in IDS]
    np.testing.assert_allclose(found["embeddings"][IDS], dense["embeddings"].numpy()[IDS], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(found["embeddings"][others], start[others])
    assert used <= {"ResourceGather", "ResourceScatterUpdate"}
    for (owner, slot), home in rules.homes.items():
        if owner == "embeddings" and home.shape == start.shape:
            np.testing.assert_array_equal(found[f"embeddings/{slot}"][others], home.numpy()[others])


def test_lazy_adam_of_several_steps_equals_numpys() -> None:
    start, random = STARTS["embeddings"], np.random.RandomState(3)
    rules, _ = traced(KO.Adam(0.1), 0)
    steps = [(ids, random.randn(2, 2).astype(np.float32)) for ids in ([0, 4], [4, 5], [8, 0])]
    values, m, v = start.astype(np.float64), np.zeros(start.shape), np.zeros(start.shape)
    for step, (ids, rows) in enumerate(steps, 1):
        m[ids] += 0.1 * (rows - m[ids])
        v[ids] += 0.001 * (rows**2 - v[ids])
        values[ids] -= 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * m[ids] / (np.sqrt(v[ids]) + 1e-7)
    with tf.Graph().as_default(), v1.Session() as session:
        table, step = v1.get_variable("embeddings", initializer=start, use_resource=True), v1.placeholder(tf.int64, [])
        ids, rows = v1.placeholder(tf.int32, [None]), v1.placeholder(tf.float32, [None, 2])
        gradient = tf.IndexedSlices(rows, ids, tf.constant(start.shape))
        update = rules.optimizer(1.0, step).apply_gradients([(gradient, table)])
        session.run(v1.global_variables_initializer())
        for number, (some, gradients) in enumerate(steps):
            session.run(update, {step: number, ids: some, rows: gradients})
        np.testing.assert_allclose(session.run(table), values, rtol=0, atol=1e-5)  # Keras's powers are float32


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Lamb", "Lamb computes each row from all rows"),
        ("Adafactor", "Adafactor computes each row from all rows"),
        ("clipnorm", "clipnorm=1.0 needs the whole gradient"),
        ("use_ema", "use_ema=True averages all rows"),
        ("accumulation", "gradient_accumulation_steps=2 updates rows after"),
    ],
)
def test_a_gradient_of_rows_of_another_rule_updates_all_rows_exactly(name: str, reason: str) -> None:
    rules, values = traced_by_name(name)
    assert not rules.allows_rows("embeddings") and rules.why_dense("embeddings").startswith(reason)
    start, optimizer = values["embeddings"], OPTIMIZERS[name]()
    dense = applied(optimizer, FIRST)
    gradient = np.zeros_like(start)
    gradient[IDS] = GRADIENTS[FIRST]["embeddings"][IDS]
    given = [tf.constant(gradient if one == "embeddings" else np.zeros_like(STARTS[one])) for one in dense]
    optimizer.apply(given, list(dense.values()))
    found, _ = rows_updated(rules, start, gradient[IDS])
    np.testing.assert_allclose(found["embeddings"], dense["embeddings"].numpy(), rtol=0, atol=1e-6)


def test_a_variable_is_divisible_where_its_rule_updates_each_row_by_itself() -> None:
    constrained = {"kernel"}  # MaxNorm; NonNeg of the bias is by element
    assert traced_by_name("Adam")[0].not_divisible == {"scalar"} | constrained
    assert traced_by_name("Muon")[0].not_divisible == {"scalar"} | constrained
    assert traced_by_name("Lamb")[0].not_divisible == set(STARTS)
    for name, moves in (("Adagrad", False), ("RMSprop", True), ("Adam", True), ("Ftrl", True), ("SGD", False)):
        assert traced_by_name(name)[0].moves_unseen_rows("embeddings") is moves


def test_a_norm_that_no_trial_reaches_is_noticed() -> None:
    assert traced(KO.SGD(0.1, clipnorm=1e9), 0)[0].not_divisible == set(STARTS)


def test_slices_begin_with_their_rows_of_the_slots() -> None:
    optimizer = KO.Adam(0.1)
    right = numpy(applied(KO.Adam(0.1), FIRST + 1))["embeddings"]
    rules, variables = traced(optimizer)
    start = variables["embeddings"].numpy()
    with tf.Graph().as_default(), v1.Session() as session:
        cuts = {"embeddings/part_0": slice(0, 4), "embeddings/part_1": slice(4, ROWS)}
        made = [v1.get_variable(name, initializer=start[rows], use_resource=True) for name, rows in cuts.items()]
        given = [tf.constant(GRADIENTS[FIRST]["embeddings"][rows]) for rows in cuts.values()]
        begins = {name: rows.start for name, rows in cuts.items()}
        step = tf.constant(0, tf.int64)
        update = rules.optimizer(1.0, step, begins).apply_gradients(list(zip(given, made, strict=True)))
        session.run(v1.global_variables_initializer())
        session.run(update)
        np.testing.assert_allclose(np.concatenate(session.run(made)), right, rtol=0, atol=1e-6)


def test_an_update_inside_a_function_makes_its_slots_outside_of_it() -> None:
    rules, right = traced(KO.Adam(0.1), 0)[0], applied(KO.Adam(0.1), 1)["gamma"].numpy()
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("gamma", initializer=STARTS["gamma"], use_resource=True)
        gradient, step = tf.constant(GRADIENTS[0]["gamma"]), v1.get_variable("step", initializer=np.int64(0))
        optimizer = rules.optimizer(tf.constant(1.0), step)

        def update() -> tf.Tensor:
            with tf.control_dependencies([optimizer.apply_gradients([(gradient, weight)])]):
                return tf.constant(1)

        done = tf.cond(tf.equal(step, 0), update, lambda: 0)
        session.run(v1.global_variables_initializer())
        session.run(done)
        np.testing.assert_allclose(session.run(weight), right, rtol=0, atol=1e-6)


class Coupled(keras.optimizers.SGD):
    """An optimizer that updates a variable from the gradients of all."""

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        norm = keras.ops.sqrt(sum(keras.ops.sum(keras.ops.square(one)) for one in grads))
        super()._backend_apply_gradients([one / norm for one in grads], trainable_variables)


def test_a_rule_that_needs_other_variables_is_refused_by_their_names() -> None:
    with pytest.raises(ModelError, match=r"Coupled updates kernel from bias, which may be on another ps"):
        traced(Coupled(0.1))


class Scattering(keras.optimizers.SGD):
    """An optimizer with an operation on a variable that has no counterpart among values."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=learning_rate, delta=gradient)


def test_an_operation_that_cannot_be_carried_is_named() -> None:
    with pytest.raises(ModelError, match=r"the optimizer Scattering uses the operation ResourceApplyGradientDescent"):
        traced(Scattering(0.1), 0)


def test_a_loss_scale_changes_as_that_of_keras() -> None:
    optimizer = KO.LossScaleOptimizer(KO.Adam(0.1), initial_scale=4.0, dynamic_growth_steps=2)
    rules, variables = traced(optimizer, 1)
    assert rules.optimizer_name == "Adam" and rules.loss_scale is not None
    scale, counter = tf.constant(rules.loss_scale.scale), tf.constant(rules.loss_scale.counter)
    for finite in (True, True, False, True, False, True, True):
        value = 1.0 if finite else np.inf
        given = [tf.fill(one.shape, tf.constant(value)) for one in STARTS.values()]
        optimizer.apply(given, list(variables.values()))
        scale, counter = rules.loss_scale.following(scale, counter, tf.constant(finite))
        assert (scale.numpy(), counter.numpy()) == (optimizer.dynamic_scale.numpy(), optimizer.step_counter.numpy())


def test_the_norm_of_rows_that_occur_twice_is_that_of_their_sum() -> None:
    rules, _ = traced(KO.SGD(0.1, global_clipnorm=1.0), 0)
    twice = tf.IndexedSlices(tf.constant([[3.0, 0.0], [0.0, 4.0]]), tf.constant([1, 1]), tf.constant([ROWS, 2]))
    found = rules.on_worker({"embeddings": twice, "gamma": tf.zeros([4])})
    np.testing.assert_allclose(found["embeddings"].values, twice.values / 5, rtol=1e-6)
