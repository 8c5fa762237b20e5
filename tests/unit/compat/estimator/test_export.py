"""Receivers name and check their tensors; the built ones parse examples or take the features as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.estimator.export import (
    ServingInputReceiver,
    TensorServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
)

SPEC = {"x": tf.io.FixedLenFeature([2], tf.float32), "words": tf.io.VarLenFeature(tf.string)}


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def tensor() -> Any:
    return v1.placeholder(tf.float32, [None, 2])


def test_a_single_tensor_gets_a_name():
    features, fed = tensor(), tensor()
    receiver = ServingInputReceiver(features, fed, {"other": features})
    assert receiver.features == {"feature": features} and receiver.receiver_tensors == {"input": fed}
    assert receiver.receiver_tensors_alternatives == {"other": {"input": features}}


def test_a_tensor_receiver_keeps_its_tensor():
    features = tensor()
    receiver = TensorServingInputReceiver(features, {"a": features})
    assert receiver.features is features and receiver.receiver_tensors == {"a": features}
    assert receiver.receiver_tensors_alternatives is None


def test_features_may_be_sparse_or_ragged_and_named_by_numbers():
    features = {1: tf.sparse.from_dense([1.0]), "b": tf.ragged.constant([[1], []])}
    assert ServingInputReceiver(features, tensor()).features == features


@pytest.mark.parametrize("kind", [ServingInputReceiver, TensorServingInputReceiver])
def test_what_is_not_a_tensor_is_refused(kind):
    for features, fed in ((None, tensor()), (3.0, tensor()), (tensor(), None), (tensor(), {"a": 3})):
        with pytest.raises(ValueError, match="must be a Tensor, SparseTensor or RaggedTensor"):
            kind(features, fed)
    with pytest.raises(ValueError, match="must be a dict of name to tensors"):
        kind(tensor(), tensor(), [tensor()])
    with pytest.raises(ValueError, match="must be a text, not int"):
        kind(tensor(), {1: tensor()})


def test_point_80_a_parsing_receiver_takes_examples(graph):
    receiver = build_parsing_serving_input_receiver_fn(SPEC)()
    floats = tf.train.Feature(float_list=tf.train.FloatList(value=[1, 2]))
    words = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": floats, "words": words}))
    assert list(receiver.receiver_tensors) == ["examples"]
    with v1.Session(graph=graph) as session:
        found = session.run(
            receiver.features, {receiver.receiver_tensors["examples"]: [example.SerializeToString()] * 3}
        )
    assert found["x"].tolist() == [[1, 2]] * 3 and found["words"].values.tolist() == [b"a", b"b"] * 3


def test_point_80_a_batch_size_can_be_fixed():
    parsing = build_parsing_serving_input_receiver_fn(SPEC, default_batch_size=4)()
    raw = build_raw_serving_input_receiver_fn({"x": tensor()}, default_batch_size=4)()
    assert parsing.receiver_tensors["examples"].shape.as_list() == [4] and raw.features["x"].shape.as_list() == [4, 2]


def test_point_80_a_raw_receiver_takes_features_like_the_given_ones():
    given = v1.placeholder(tf.int64, [7, 3], "given")
    receiver_fn = build_raw_serving_input_receiver_fn({"a": given})
    with tf.Graph().as_default():
        receiver = receiver_fn()
        found = receiver.features["a"]
        assert receiver.receiver_tensors["a"] is found and found.graph is not given.graph
        assert (found.dtype, found.shape.as_list(), found.op.name) == (tf.int64, [None, 3], "given")


def test_point_80_a_raw_receiver_takes_tensors_of_eager_mode():
    with tf.init_scope():
        receiver_fn = build_raw_serving_input_receiver_fn({"a": tf.ones([7, 3])})
    assert receiver_fn().features["a"].shape.as_list() == [None, 3]


def test_point_80_a_raw_receiver_can_be_built_from_a_feature_spec():
    receiver = build_raw_serving_input_receiver_fn(SPEC)()
    assert receiver.features["x"].shape.as_list() == [None, 2]
    assert isinstance(receiver.features["words"], tf.SparseTensor) and receiver.features["words"].dtype == tf.string


def test_point_80_a_raw_receiver_refuses_other_values():
    with pytest.raises(ValueError, match="x must be a Tensor"):
        build_raw_serving_input_receiver_fn({"x": 3})()
