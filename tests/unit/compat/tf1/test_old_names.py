"""Names of TensorFlow before 1.0."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import old_names
from ps_train.compat.tf1.old_names import NAMES


def summary_of(run, made) -> v1.Summary:
    return v1.Summary.FromString(run(made))


def test_summaries_have_their_tags_and_are_collected(run) -> None:
    scalar = old_names.scalar_summary("loss", 1.5)
    histogram = old_names.histogram_summary("weights", [1.0, 3.0])
    alone = old_names.scalar_summary("alone", 2.0, collections=[])
    (value,) = summary_of(run, scalar).value
    assert value.tag == "loss" and value.simple_value == 1.5
    (value,) = summary_of(run, histogram).value
    assert value.tag == "weights" and value.histo.num == 2 and value.histo.sum == 4
    assert v1.get_collection(v1.GraphKeys.SUMMARIES) == [scalar, histogram]
    merged = summary_of(run, old_names.merge_all_summaries())
    assert [value.tag for value in merged.value] == ["loss", "weights"]
    assert summary_of(run, alone).value[0].simple_value == 2.0
    assert old_names.merge_all_summaries("none") is None


def test_images_and_sounds_are_limited(run) -> None:
    images = old_names.image_summary("image", tf.zeros([5, 4, 4, 1]), max_images=2)
    sounds = old_names.audio_summary("sound", tf.zeros([5, 16]), 8000.0, max_outputs=3)
    assert len(summary_of(run, images).value) == 2 and len(summary_of(run, sounds).value) == 3


def test_a_constant_may_be_a_range(run) -> None:
    assert run(old_names.constant(range(3))).tolist() == [0, 1, 2]
    assert run(old_names.constant([1.5], tf.float64)).dtype == np.float64


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("mul", (3, 4), 12), ("sub", (3, 4), -1), ("neg", (3,), -3), ("pack", ([1, 2],), [1, 2]),
        ("batch_matmul", ([[[2.0]]], [[[3.0]]]), [[[6.0]]]), ("complex_abs", (-2.0,), 2.0),
    ],
)  # fmt: skip
def test_functions_compute_as_under_their_new_names(run, name: str, arguments, result) -> None:
    np.testing.assert_array_equal(run(NAMES[name](*arguments)), result)
