"""A step of assigned shards: its batches, what its push says of them, and what its update counts."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.data.batching import ONE_SIZE
from ps_train.data.shards.shard_layout import Assignment, progress_value
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.step.parts.step_part import ToUpdate, Updated
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.base import Removal, StepOps, WaitLimit
from tests.support.graphs.local import LocalSession
from tests.support.graphs.steps import spec_of
from tests.support.models.small import Linear

SHARDS, NUM_PS = 4, 3


def computed_of(batches: Any) -> Any:
    return types.SimpleNamespace(progress=[batches.progress[tf.newaxis]])


@pytest.fixture(scope="module")
def spec() -> Any:
    return spec_of(Linear(), NUM_PS, sharding="dynamic", shard_examples=16, batch_size=5)


class Made:
    """The part after all its words; ps 1 is not pushed to."""

    def __init__(self, spec: Any) -> None:
        self.part = part = Sharding(spec)
        with tf.Graph().as_default() as graph:
            data = Arrays(np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float32))
            self.batches = part.batches(lambda data, batching: pytest.fail("a fixed share"))(data, ONE_SIZE)
            vector = (tf.zeros([1]),)
            pushes = [ReceivedPush(ps, (), vector if ps != 1 else ()) for ps in range(NUM_PS)]
            self.pushed = part.push(lambda pushes, computed: pushes)(pushes, computed_of(self.batches))
            step = v1.Variable(tf.constant(7, tf.int64), use_resource=True)
            before = Removal(tf.no_op(), v1.placeholder(tf.int64, []))
            self.given: list[ToUpdate] = []

            def update(given: ToUpdate) -> Updated:
                self.given.append(given)
                return Updated(StepOps([], tf.constant(0), removals=[before]), [])

            to_update = ToUpdate(self.pushed, None, None, [step], {}, (), WaitLimit.fixed(0))  # type: ignore[arg-type]
            self.ops = part.update(update)(to_update).ops
            self.before, self.session = before, LocalSession(graph)


@pytest.fixture(scope="module")
def made(spec: Any) -> Made:
    return Made(spec)


def test_batches_are_of_the_assigned_shards_and_their_push_says_so(spec: Any) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        part = Sharding(spec)
        data = Arrays(np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float32))
        batches = part.batches(lambda data, batching: pytest.fail("a fixed share"))(data, ONE_SIZE)
        (push,) = part.push(lambda pushes, computed: pushes)([ReceivedPush(0, (), ())], computed_of(batches))
        assert part.assigned.count == SHARDS
        part.assigned.assign(Assignment(2, progress_value(0), progress_value(1)))
        session.run(batches.initializer, batches.feeds())
        found = [session.run([batches.features, push.progress[0]]) for _ in range(4)]
    assert [len(features) for features, _ in found] == [5, 5, 5, 1]
    assert np.concatenate([features for features, _ in found]).tolist() == [*range(32, 48)]
    assert [progress.tolist() for _, progress in found] == [
        [[2, progress_value(0, begin), progress_value(0, begin + 5)]] for begin in (0, 5, 10)
    ] + [[[2, progress_value(0, 15), progress_value(1)]]]


def test_each_ps_that_is_pushed_to_counts_used_examples(made: Made) -> None:
    (given,) = made.given
    assert set(given.shard_parts) == {0, 2}
    entries = made.part.entries()
    name = f"ps_train/progress/{made.part.assigned.name}"
    keys = [(entry.key, entry.follower, entry.optional) for entry in entries]
    assert keys == [(name, False, False), (name, True, False), (f"ps_train/of_ps/2_of_{NUM_PS}/{name}", False, True)]
    assert [entry.full_shape for entry in entries] == [[SHARDS]] * 3
    assert "use these, or another --model_dir" in entries[0].advice


def test_a_removed_replica_s_shards_are_freed_before_anything_else(made: Made) -> None:
    freed, before = made.ops.removals
    assert before is made.before
    ownership = made.part.ownership
    taken = made.session.run(ownership.compare_and_set, ownership.feeds({0: (0, 1), 1: (0, 2), 3: (0, 2)}))
    assert taken["owners"].tolist() == [1, 2, 0, 2], "no seats, as the data end"
    made.session.run(freed.op, {freed.replica: 1})
    found = made.session.run(ownership.read)
    assert found["owners"].tolist() == [1, 0, 0, 0] and found["step"] == 7, "owners are counted from 1"


def test_the_rest_of_a_push_and_of_the_update_stays_as_it_is(made: Made) -> None:
    assert [dataclasses.replace(one, progress=()) for one in made.pushed] == [
        ReceivedPush(one.ps, (), one.vectors, one.decode) for one in made.pushed
    ]
    assert made.ops.train == []
