"""What a worker notes of the local steps of a round."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.round_notes import RoundNotes
from ps_train.engine.variables.worker_state import OWN

Place = tuple[int, int, int]


def places(batches: list[Place], most: int = 8) -> list[list[int]]:
    """What a round notes of batches, each with its shard and the shard's cursor before and after it."""
    with tf.Graph().as_default(), v1.Session() as session:
        notes, place = RoundNotes(most), v1.placeholder(tf.int64, [3])
        found: Any = SimpleNamespace(progress=[place[tf.newaxis]], examples=tf.constant(4.0), sums=[])
        always = tf.constant(True)
        noted = notes.add(found, always, always, always, after=[])
        notes.end()
        session.run([variable.initializer for variable in v1.get_collection(OWN)])
        for batch in batches:
            session.run(noted, {place: batch})
        assert session.run(notes.steps) == len(batches)
        assert session.run(notes.examples) == 4 * len(batches)
        ends: np.ndarray[Any, Any] = session.run(notes.places[0])
        session.run(notes.forgotten())
        assert session.run(notes.places[0]).size == session.run(notes.steps) == 0
        return ends.tolist()


@pytest.mark.parametrize(
    ("batches", "noted"),
    [
        ([(5, 0, 4), (5, 4, 8), (5, 8, 9)], [[5, 0, 9]]),
        ([(5, 0, 4), (2, 8, 12), (2, 12, 13)], [[5, 0, 4], [2, 8, 13]]),
        # Partitions are read in turn.
        ([(0, 1, 3), (1, 1, 3), (2, 1, 3), (0, 3, 5), (1, 3, 5), (0, 5, 7)], [[0, 1, 7], [1, 1, 5], [2, 1, 3]]),
        # A batch that does not follow is one of its own, which the ps refuse.
        ([(0, 1, 3), (0, 5, 7)], [[0, 1, 3], [0, 5, 7]]),
        # Where the input has ended, batches are of no shard.
        ([(-1, -1, -1), (3, 0, 4), (-1, -1, -1), (3, 4, 6)], [[3, 0, 6]]),
        ([(-1, -1, -1)], []),
    ],
)
def test_a_shard_is_noted_once_with_all_its_batches(batches: list[Place], noted: list[list[int]]) -> None:
    assert places(batches) == noted


def test_a_round_may_have_as_many_shards_as_steps() -> None:
    assert places([(shard, 0, 1) for shard in range(4)], most=4) == [[shard, 0, 1] for shard in range(4)]
