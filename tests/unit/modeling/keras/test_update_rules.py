"""The optimizer of a ps, and what travels to it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.variables import CheckpointEntry, rows_spec
from ps_train.modeling.keras.rules import trace_rules
from ps_train.saved.warm_start.writing import Target, reader_of
from tests.support.keras_rules import (
    BY_ROW,
    FIRST,
    GRADIENTS,
    IDS,
    KO,
    OPTIMIZERS,
    ROWS,
    STARTS,
    S,
    applied,
    assert_equal,
    numpy,
    rows_updated,
    traced,
    traced_by_name,
)


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


@pytest.mark.usual(8)
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


def test_slices_begin_with_their_rows_of_the_slots() -> None:
    optimizer = KO.Adam(0.1)
    right = numpy(applied(KO.Adam(0.1), FIRST + 1))["embeddings"]
    rules, variables = traced(optimizer)
    start = variables["embeddings"].numpy()
    with tf.Graph().as_default(), v1.Session() as session:
        cuts = {"embeddings/part_0": slice(0, 4), "embeddings/part_1": slice(4, ROWS)}
        made = [v1.get_variable(name, initializer=start[rows], use_resource=True) for name, rows in cuts.items()]
        given = [tf.constant(GRADIENTS[FIRST]["embeddings"][rows]) for rows in cuts.values()]
        step = tf.constant(0, tf.int64)
        update = rules.optimizer(1.0, step).apply_gradients(list(zip(given, made, strict=True)))
        slots = {one.op.name: one for one in v1.global_variables()}
        specs = {name: rows_spec([ROWS, 2], rows.start, len(start[rows])) for name, rows in cuts.items()}
        targets = {}
        for kind in ("momentum", "velocity"):
            entries = [CheckpointEntry("", spec, slots[f"{name}/{kind}"]) for name, spec in specs.items()]
            targets[f"embeddings/{kind}"] = Target(entries, "/device:CPU:0")
        session.run(v1.global_variables_initializer())
        for key, target in targets.items():
            target.write_all(session, reader_of(rules.slot_values[key]))
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


def test_the_norm_of_rows_that_occur_twice_is_that_of_their_sum() -> None:
    rules, _ = traced(KO.SGD(0.1, global_clipnorm=1.0), 0)
    twice = tf.IndexedSlices(tf.constant([[3.0, 0.0], [0.0, 4.0]]), tf.constant([1, 1]), tf.constant([ROWS, 2]))
    found = rules.on_worker({"embeddings": twice, "gamma": tf.zeros([4])})
    np.testing.assert_allclose(found["embeddings"].values, twice.values / 5, rtol=1e-6)
