"""The design, the oracle and the verdict of `python -m tests.pairwise`, and two of its rows."""

from __future__ import annotations

import dataclasses
import pathlib
import random
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.flags import parse
from ps_train.optimizers import LazyAdam, RowWiseAdagrad
from tests.pairwise.__main__ import judge, numbers_of
from tests.pairwise.factors import (
    BATCH,
    EXPIRE_STEPS,
    RATE,
    RESUME_STEP,
    STEPS,
    Row,
    all_pairs,
    design,
    is_legal,
    pairs_of,
    row_with,
)
from tests.pairwise.job import Job, Run
from tests.pairwise.model import IDS, Net, make_examples
from tests.pairwise.oracle import Optimizer, Oracle
from tests.pairwise.verdict import SLOT_KEYS, faults
from tests.support.clusters.cluster import train_plainly
from tests.support.long import long
from tests.support.machine.processes import Processes


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return design(seed=1)


def test_every_pair_of_levels_is_in_a_row_unless_no_row_may_have_it(rows: list[Row]) -> None:
    left = {*all_pairs()} - {pair for row in rows for pair in pairs_of(row)}
    assert [pair for pair in left if row_with(pair, random.Random(2)) is not None] == []
    assert len(left) < 80  # racks and ps on workers exclude many levels


def test_the_rows_are_few_and_legal_and_a_seed_decides_them(rows: list[Row]) -> None:
    assert len(rows) < 80
    assert [row for row in rows if not is_legal(row)] == []
    assert sum(row.has_equal_examples for row in rows) < len(rows) / 2
    assert design(seed=1) == rows != design(seed=2)


def test_the_program_takes_the_flags_of_every_row(rows: list[Row], tmp_path: pathlib.Path) -> None:
    for number, row in enumerate(rows):
        job = Job(row, Processes(tmp_path), tmp_path, row.num_ps, STEPS, tmp_path / f"gate-{number}", (8,))
        for task in job.tasks:
            assert parse(job.flags_of(task), {}).job.update == row.update


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sgd", v1.train.GradientDescentOptimizer),
        ("momentum", lambda rate: v1.train.MomentumOptimizer(rate, 0.9)),
        ("adam", v1.train.AdamOptimizer),
        ("adagrad", v1.train.AdagradOptimizer),
        ("ftrl", v1.train.FtrlOptimizer),
        ("rmsprop", v1.train.RMSPropOptimizer),
        ("lazy_adam", LazyAdam),
        ("rowwise_adagrad", RowWiseAdagrad),
    ],
)
def test_the_oracles_optimizers_are_those_of_tensorflow(name: str, make: Callable[[float], v1.train.Optimizer]) -> None:
    chance = np.random.default_rng(1)
    begin = chance.normal(size=(5, 3))
    steps = [(sorted(chance.choice(5, 2, replace=False).tolist()), chance.normal(size=(2, 3))) for _ in range(6)]
    steps = [(list(range(5)), chance.normal(size=(5, 3))) for _ in steps] if name == "adam" else steps
    got, optimizer = begin.copy(), Optimizer(name)
    slots = optimizer.make_slots(got)
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=begin.astype(np.float32), use_resource=True)
        rows, values = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None, 3])
        gradient = values if name == "adam" else tf.IndexedSlices(values, rows, tf.constant([5, 3], tf.int64))
        if name == "adam":
            gradient = tf.ensure_shape(values, [5, 3])
        update = make(RATE).apply_gradients([(gradient, variable)])
        session.run(v1.global_variables_initializer())
        for number, part in steps:
            session.run(update, {rows: number, values: part})
            optimizer.begin()
            optimizer.apply(got, slots, number, part)
        np.testing.assert_allclose(got, session.run(variable), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("table", ["none", "rows"])
@pytest.mark.parametrize("is_linear", [False, True])
def test_the_oracles_gradients_are_those_of_the_model(table: str, is_linear: bool) -> None:
    row = Row(table=table, optimizer="momentum", prefetch_pulls=int(is_linear), steps_per_run="3")
    oracle = Oracle(row)
    assert oracle.run(STEPS) == STEPS
    x, ids, labels = make_examples(row.examples, equal=row.has_equal_examples)
    parts = [slice(step % 4 * BATCH, (step % 4 + 1) * BATCH) for step in range(STEPS)]
    plain = train_plainly(
        Net(row.examples, row.has_equal_examples, table, is_linear),
        lambda: v1.train.MomentumOptimizer(RATE, 0.9),
        {},
        [({"x": x[part], "id": ids[part]}, labels[part]) for part in parts],
    )
    for name, value in oracle.values.items():
        if name != "emb/default":
            got = plain[name][plain_places()] if name == "emb" else plain[name]
            np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5, err_msg=name)


def plain_places() -> np.ndarray:
    from ps_train.embeddings import positions_of

    return positions_of(np.arange(IDS), IDS)


def run_of(row: Row, oracle: Oracle, **changes: int) -> Run:
    restarted_at = None if row.event == "none" else RESUME_STEP
    return dataclasses.replace(Run(oracle.step, oracle.skipped, "", restarted_at=restarted_at), **changes)


def right_values(row: Row, steps: int = STEPS) -> tuple[Oracle, dict[str, np.ndarray]]:
    """Returns the values of a run that went right, as a checkpoint has them."""
    oracle = Oracle(row)
    if row.event != "none":
        oracle.run(RESUME_STEP)
        oracle.start_again()
    oracle.run(steps)
    values = {name: value.astype(np.float32) for name, value in oracle.values.items()}
    for name, slots in oracle.slots.items():
        values |= {
            f"{name}/{SLOT_KEYS[row.optimizer][slot]}": value.astype(np.float32) for slot, value in slots.items()
        }
    known = np.array([number in oracle.known_ids for number in range(IDS)])
    values["emb/used"] = np.stack([known, np.where(known, oracle.step, 0), known], 1).astype(np.int64)
    values |= {"emb/keys": np.arange(IDS)[:, np.newaxis], "emb/clock": np.array([oracle.step])}
    return oracle, values


JUDGED = Row(event="resume", on_nan="skip", l2=0.01, optimizer="momentum", table="admit")


def test_the_verdict_finds_nothing_in_right_values() -> None:
    oracle, values = right_values(JUDGED)
    assert faults(JUDGED, run_of(JUDGED, oracle), values) == []


@pytest.mark.parametrize("name", ["w1", "count", "w2/Momentum", "emb", "emb/Momentum", "emb/default"])
def test_the_verdict_notices_a_wrong_value(name: str) -> None:
    oracle, values = right_values(JUDGED)
    values[name].flat[-1] += 0.01
    assert [text.split("[")[0] for text in faults(JUDGED, run_of(JUDGED, oracle), values)] == [name]


@pytest.mark.parametrize("steps", [STEPS - 1, STEPS + 1])
@pytest.mark.parametrize("codecs", [("none", "none"), ("bfloat16", "bfloat16"), ("int8", "int8")])
def test_the_verdict_notices_one_update_too_few_or_too_many(codecs: tuple[str, str], steps: int) -> None:
    row = dataclasses.replace(JUDGED, codecs=codecs)
    _, values = right_values(row, steps)
    oracle, _ = right_values(row)
    assert any(text.startswith("count") for text in faults(row, run_of(row, oracle), values))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"steps": STEPS - 1}, f"ended at step {STEPS - 1}, not {STEPS}"),
        ({"restarted_at": 5}, "went on at step 5, not 6"),
        ({"skipped": 0}, "skipped 0 gradients"),
    ],
)
def test_the_verdict_notices_wrong_steps(changes: dict[str, int], problem: str) -> None:
    oracle, values = right_values(JUDGED)
    (found,) = faults(JUDGED, run_of(JUDGED, oracle, **changes), values)
    assert problem in found


def test_the_verdict_notices_an_id_that_should_have_expired() -> None:
    row = Row(table="expire")
    oracle, values = right_values(row)
    expired = min({*range(IDS)} - oracle.known_ids)
    values["emb/used"][expired] = [1, oracle.step - EXPIRE_STEPS, 1]
    assert faults(row, run_of(row, oracle), values) == []
    values["emb/used"][expired, 1] += 1
    assert "emb has rows" in faults(row, run_of(row, oracle), values)[0]


def test_numbers_of_rows() -> None:
    assert numbers_of("3,7,20-22") == [3, 7, 20, 21, 22]


@pytest.mark.parametrize(
    "row",
    [
        Row(num_ps=2, event="kill_worker", sharding="dynamic", data="uneven", optimizer="momentum", table="expire"),
        long(Row(update="sync", num_workers=2, event="kill_job", ending="epochs", on_nan="skip", clip="norm")),
        long(Row(event="resume", ending="early_stop", prefetch_pulls=1, steps_per_run="3", table="open")),
    ],
    ids=Row.text,
)
def test_a_row_agrees_with_the_oracle(row: Row) -> None:
    assert is_legal(row)
    assert judge(row) == ""
