"""A push as a ps receives it: its gradients, its header, and a push of zeros in its place."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.parcels import Parcel, pack, with_header
from ps_train.engine.transport.received_push import HEADER_SIZE, ReceivedPush, empty_push
from ps_train.engine.variables.plan import Slice


def piece(name, shape, dtype="float32"):
    return Slice(name, 0, 1, 0, shape, dtype, int(np.prod(shape)) * tf.as_dtype(dtype).size, ps=0)


@pytest.fixture
def push():
    """Gradients of two dtypes, of 5 examples, one of them skipped."""
    parcels = with_header(pack([piece("a", (2, 2)), piece("b", (3,)), piece("c", (2,), "float64")], 0), 0, HEADER_SIZE)
    values = {"a": [1.0, 2, 3, 4], "b": [5.0, 6, 7], "c": [8.0, 9]}
    with tf.Graph().as_default():
        vectors = []
        for parcel in parcels:
            pieces = {one.name: tf.constant(values[one.name], parcel.dtype) for one in parcel.slices}
            vectors.append(parcel.join(pieces, tf.constant([5.0, 1.0, 0.0]) if parcel.header else None))
        yield ReceivedPush(0, tuple(parcels), tuple(vectors))


def run(fetches):
    with v1.Session() as session:
        return session.run(fetches)


def test_gradients_and_header_are_read(push):
    gradients, header = push.gradients()
    found = run(gradients)
    assert {name: value.shape for name, value in found.items()} == {"a": (2, 2), "b": (3,), "c": (2,)}
    assert found["a"].tolist() == [[1, 2], [3, 4]]
    assert found["c"].dtype == np.float64
    assert run([header.examples, header.skipped, header.torn]) == [5, 1, 0]
    assert run(push.header().examples) == 5


@pytest.mark.parametrize("wanted", [True, False])
def test_an_unwanted_push_has_zeros_and_no_examples(push, wanted):
    gradients, header = push.masked_by(tf.constant(wanted)).gradients()
    assert run(header.examples) == 5 * wanted
    assert run(gradients)["b"].tolist() == [5 * wanted, 6 * wanted, 7 * wanted]


def test_a_skipped_gradient_is_zeros_that_count_as_skipped():
    parcel = Parcel(0, "float32", (piece("a", (2,)),), header=HEADER_SIZE)
    with tf.Graph().as_default():
        push = ReceivedPush(0, (parcel,), (tf.constant(empty_push(parcel)),))
        gradients, header = push.gradients()
        assert run([gradients["a"], header.examples, header.skipped])[0].tolist() == [0, 0]
        assert run([header.examples, header.skipped]) == [0, 1]
