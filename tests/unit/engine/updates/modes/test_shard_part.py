"""What the parts of a shard do with a push and with an update, without servers."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.received_push import Header
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes.shard_part import AssignedState, Counts, PendingSum, RunCounting, Update
from ps_train.engine.updates.modes.staleness import BINS


def variable(shape: list[int], dtype: tf.DType) -> tf.Variable:
    return v1.Variable(tf.zeros(shape, dtype), use_resource=True)


def header() -> Header:
    return Header(tf.constant(5.0), tf.constant(1.0), tf.constant(0.0))


def after(done: list[tf.Operation], found: object) -> object:
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(done)
        return session.run(found)


def test_an_update_counts_its_examples_and_a_push_what_was_left_out() -> None:
    with tf.Graph().as_default():
        counters = RunCounters(
            variable([], tf.float64),
            *(variable([], tf.int64) for _ in range(2)),
            variable([2, BINS], tf.int64),
            variable([2, 2], tf.float64),
        )
        part, one = RunCounting(counters), tf.constant(1, tf.int64)
        done = part.updated(Update(header()))
        done += part.counted(Counts(1, [one * 3], [one * 2], [(one * 10_000, one)]))
        found = after(done, vars(counters))
    assert (found["examples"], found["skipped"], found["dropped"]) == (5, 3, 2)
    assert found["staleness"].sum() == found["staleness"][1, BINS - 1] == 1, "the last bin has all older ones"


def test_without_rules_no_push_is_dropped() -> None:
    with tf.Graph().as_default():
        counters = RunCounters(*(variable([], tf.int64) for _ in range(5)))
        assert len(RunCounting(counters).counted(Counts(0, [tf.constant(0, tf.int64)]))) == 1


@pytest.mark.parametrize(("conditions", "value"), [([], 7), ([True], 7), ([False], 0)])
def test_the_state_of_a_model_is_assigned_if_it_is_of_the_update(conditions: list[bool], value: int) -> None:
    with tf.Graph().as_default():
        mean = variable([], tf.float32)
        update = Update(header(), {"mean": tf.constant(7.0)}, [tf.constant(one) for one in conditions])
        assert after(AssignedState({"mean": mean}).updated(update), mean) == value
        assert AssignedState({"mean": mean}).updated(Update(header())) == []


def test_what_the_pushes_of_a_round_add_counts_when_it_ends_or_not_at_all() -> None:
    with tf.Graph().as_default():
        total, only_if, push = variable([2], tf.float64), v1.placeholder(tf.bool, []), v1.placeholder(tf.float32, [2])
        part = PendingSum("pending", total, lambda pushed: pushed)  # type: ignore[arg-type, return-value]
        add, finish, clear = part.add(push, only_if), part.finish(), part.clear()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())

            def round_of(*used: bool, end: tf.Operation = finish) -> list[float]:
                for one in used:
                    session.run(add, {push: [1.0, 2.0], only_if: one})
                assert session.run(total).tolist() == before
                session.run(end)
                return session.run(total).tolist()

            before = [0.0, 0.0]
            before = round_of(True, False, True)
            assert before == [2.0, 4.0]
            assert round_of(True, end=clear) == before
            assert round_of(True) == [3.0, 6.0]
