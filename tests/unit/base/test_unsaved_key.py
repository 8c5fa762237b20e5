"""Collections that TensorFlow leaves out of MetaGraphs."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.unsaved_key import UnsavedKey


def test_a_meta_graph_does_not_have_the_collection() -> None:
    key = UnsavedKey("inputs")
    with tf.Graph().as_default() as graph:
        v1.add_to_collection(key, ("feature", tf.constant(1)))
        v1.add_to_collection("saved", tf.constant(2))
        assert len(v1.get_collection(key)) == 1
        assert [*v1.train.export_meta_graph(graph=graph).collection_def] == ["saved"]
