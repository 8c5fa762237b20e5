"""A batch size that changes from a global step on, and its way to the next batch."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.bounds import Bounds
from ps_train.engine.updates.following.batch_size_control import ScheduledValue, possible_sizes
from ps_train.engine.variables.variables import ps_device
from tests.support.graphs.local import LocalSession


@pytest.mark.parametrize(
    ("lower", "upper", "sizes"), [(8, 64, (8, 16, 32, 64)), (8, 63, (8, 16, 32)), (5, 10, (5, 10)), (6, 6, (6,))]
)
def test_sizes_are_doubled_as_long_as_the_upper_bound_allows(lower: int, upper: int, sizes: tuple[int, ...]) -> None:
    assert possible_sizes(Bounds(lower, upper)) == sizes


def test_a_size_holds_from_the_step_after_the_one_at_which_it_was_chosen() -> None:
    with tf.Graph().as_default() as graph:
        with v1.device(ps_device(0)):
            global_step = v1.Variable(tf.constant(10, tf.int64), use_resource=True)
        schedule = ScheduledValue("batch_size", Bounds(8, 64))
        step = v1.placeholder(tf.int64, [])
        at, newest = schedule.at(step), schedule.newest()
        wanted, change = schedule.change(global_step)
        go = global_step.assign(20, read_value=False)
        stored = schedule.variable.assign([1000, 5, 1], read_value=False)
        session = LocalSession(graph)

        def sizes() -> list[int]:
            return [int(session.run(at, {step: number})) for number in (0, 10, 11, 20, 21, 99)]

        assert sizes() == [8] * 6 and session.run(newest) == 8
        session.run(change, {wanted: 32})
        assert sizes() == [8, 8, 32, 32, 32, 32] and session.run(newest) == 32
        session.run(go)
        session.run(change, {wanted: 16})
        assert sizes()[3:] == [32, 16, 16] and session.run(newest) == 16
        session.run(stored)
        assert sizes() == [64, 8, 8, 8, 8, 8], "sizes of a job with other bounds"
