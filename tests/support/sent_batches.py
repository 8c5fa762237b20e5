"""Reads the batches of a `SentData` in a graph, as a worker does."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.sent.sent_data import SentData

_CHILD = """
import pickle, sys
from tests.support.sent_batches import read
from ps_train.data.sent.sent_data import SentData
steps, count, index, deal = sys.argv[1:5]
for directory in sys.argv[5:]:
    found = read(SentData.read(directory), int(steps), int(count), int(index), deal == "True")
    with open(directory + "/found.pickle", "wb") as file:
        pickle.dump(found, file)
"""


def read(data: SentData, steps: int, count: int = 1, index: int = 0, deal: bool = False, start: int = 0) -> list[Any]:
    """Returns the first pairs of a worker's batches and their examples, as numpy values."""
    with tf.Graph().as_default(), v1.Session() as session:
        place = v1.placeholder(tf.int64, [])
        dataset = data.batches(count, index, deal, start=place if start else 0)
        iterator = v1.data.make_initializable_iterator(dataset)
        batch, examples = iterator.get_next()
        assert tf.nest.map_structure(lambda tensor: tensor.dtype, batch) == tf.nest.map_structure(
            lambda spec: spec.dtype, data.element_spec
        )
        for tensor, spec in zip(tf.nest.flatten(batch), tf.nest.flatten(data.element_spec), strict=True):
            assert spec.shape.is_compatible_with(tensor.shape)
            assert tensor.shape.rank == spec.shape.rank
        session.run(iterator.initializer, {place: start})
        return [session.run((batch, examples)) for _ in range(steps)]


def read_in_a_child(
    directories: list[pathlib.Path], steps: int, count: int = 1, index: int = 0, deal: bool = False
) -> list[list[Any]]:
    """Returns what `read` returns in another process for the data that were written into each directory."""
    arguments = map(str, (steps, count, index, deal, *directories))
    root = pathlib.Path(__file__).parents[2]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", _CHILD, *arguments], check=True, cwd=root, env=environment, timeout=120)
    return [pickle.loads((directory / "found.pickle").read_bytes()) for directory in directories]


def joined(pieces: list[Any]) -> Any:
    """Returns the batch whose pieces, with their examples, workers have; pieces without examples are left out."""
    batches = [batch for batch, examples in pieces if examples]
    return tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *batches)


def same(one: Any, other: Any) -> bool:
    """Returns True if nested arrays are equal."""
    tf.nest.assert_same_structure(one, other)
    return all(map(np.array_equal, tf.nest.flatten(one), tf.nest.flatten(other)))
