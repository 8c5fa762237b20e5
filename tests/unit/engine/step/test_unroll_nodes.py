"""The nodes of a step, which decide how many steps a call makes."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.unroll import UnrolledCalls, UnrolledStep


def nodes(length: int) -> int:
    """Those of a step with a condition, one of whose branches has so many more nodes."""

    def long() -> tf.Tensor:
        value = examples
        for _ in range(length):
            value = tf.tanh(value)
        return value

    with tf.Graph().as_default():
        examples = v1.placeholder(tf.float32, [])
        result = v1.cond(examples > 0, long, lambda: tf.identity(examples))
        return UnrolledCalls(UnrolledStep([result.op], examples), num_ps=0).nodes


@pytest.mark.parametrize("length", [1, 100])
def test_nodes_in_functions_count(length: int) -> None:
    assert nodes(length + 7) - nodes(length) == 7
