"""Results of an input_fn: a Dataset of batches, or one batch."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.input_result import ends, features_and_labels, split_batch


def test_a_batch_has_features_and_perhaps_labels() -> None:
    assert split_batch(("x", "y")) == ("x", "y") and split_batch(["x", None]) == ("x", None)
    assert split_batch({"a": 1}) == ({"a": 1}, None)
    for wrong in (("x",), ("x", "y", "z")):
        with pytest.raises(ValueError, match=f"batches of {len(wrong)} parts"):
            split_batch(wrong)


def test_a_dataset_begins_again_in_every_session() -> None:
    with tf.Graph().as_default():
        data = tf.data.Dataset.from_tensor_slices(({"x": [1, 2, 3]}, [4, 5, 6]))
        features, labels, (hook,) = features_and_labels(data)
        assert ends(features)
        for _ in range(2):
            with v1.Session() as session:
                hook.after_create_session(session, None)
                assert session.run([features["x"], labels]) == [1, 4]
                assert session.run([features["x"], labels]) == [2, 5]


def test_tensors_need_no_hook_and_do_not_end() -> None:
    with tf.Graph().as_default():
        x = tf.constant([1.0])
        features, labels, hooks = features_and_labels({"x": x})
        assert features["x"] is x and labels is None and hooks == [] and not ends(features)


def test_a_queue_can_end() -> None:
    with tf.Graph().as_default():
        x = tf.constant([1.0])
        v1.add_to_collection(v1.GraphKeys.QUEUE_RUNNERS, "a runner")
        assert ends(x)
