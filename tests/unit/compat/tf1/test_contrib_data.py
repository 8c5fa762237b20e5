"""Data of tf.contrib.data."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib import make_contrib

CONTRIB = make_contrib(lambda: None)


@pytest.mark.parametrize("name", ["parallel_interleave", "sloppy_interleave"])
def test_interleaved_data_have_every_element(run, name):
    files = v1.data.Dataset.range(3)
    transform = getattr(CONTRIB.data, name)(lambda n: v1.data.Dataset.from_tensors(n).repeat(2), cycle_length=2)
    batch = v1.data.make_one_shot_iterator(files.apply(transform).batch(6)).get_next()
    assert sorted(run(batch).tolist()) == [0, 0, 1, 1, 2, 2]


def test_data_are_mapped_shuffled_and_repeated(run):
    data = v1.data.Dataset.range(4).apply(CONTRIB.data.shuffle_and_repeat(4, 2))
    batch = v1.data.make_one_shot_iterator(data.apply(CONTRIB.data.map_and_batch(lambda n: n * 10, 8))).get_next()
    assert sorted(run(batch).tolist()) == [0, 0, 10, 10, 20, 20, 30, 30]
