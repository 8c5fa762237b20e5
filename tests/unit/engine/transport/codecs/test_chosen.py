"""One of several codecs, chosen anew in each step: the receiver finds out which, and nothing is lost at a change."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.following_values import AUTO_CODECS
from ps_train.engine.transport.codecs.chosen import Chosen
from ps_train.engine.transport.codecs.feedback import ErrorFeedback
from ps_train.engine.transport.coding import codec_of
from ps_train.engine.variables.worker_state import collect_local_state
from tests.support.graphs.codecs import UsedCodec


def chosen_of(number):
    codec = Chosen([codec_of(text) for text in AUTO_CODECS[1:]])
    codec.number = number
    return codec


class ByNumber(UsedCodec):
    """A chosen codec, whose receiver does not know the sender's number."""

    def __init__(self, number, length, is_known=True):
        super().__init__(chosen_of(np.int64(number)), length, is_known)


@pytest.mark.parametrize("length", [0, 4, 257, 10_000])
def test_a_receiver_of_another_number_decodes_what_was_sent(length):
    vector = np.random.default_rng(1).normal(size=length).astype(np.float32)
    receiver = ByNumber(0, length, is_known=False)
    for number, text in enumerate(AUTO_CODECS):
        sender = ByNumber(number, length)
        (wire,) = sender.encode(vector)
        plain = vector if number == 0 else UsedCodec(codec_of(text), length)(vector)
        assert np.array_equal(receiver.decode([wire], vector), plain), text


def test_no_encoded_vector_has_as_many_bytes_as_a_plain_one():
    lengths = np.arange(100_000)
    of_bfloat16, of_int8 = 2 * lengths + 1, 8 + lengths + 4 * -(-lengths // 256) + 1
    assert not (of_bfloat16 == 4 * lengths).any() and not (of_int8 == 4 * lengths).any()
    for length in (5, 1000):
        vector = np.ones(length, np.float32)
        sizes = [ByNumber(number, length).encode(vector)[0].size for number in range(3)]
        assert sizes == [4 * length, of_bfloat16[length], of_int8[length]]


def test_a_residual_is_taken_over_by_the_next_codec_and_sent_by_a_push_without_one():
    length, generator = 600, np.random.default_rng(3)
    with tf.Graph().as_default() as graph:
        vector, number = v1.placeholder(tf.float32, [length]), v1.placeholder(tf.int64, [])
        seed, is_used = v1.placeholder(tf.int64, [2]), v1.placeholder(tf.bool, [])
        codec = chosen_of(number)
        feedback = ErrorFeedback("residual", codec, length)
        parts, done = feedback.encode(vector, seed, is_used)
        fetches, residual = [codec.decode(parts, length), done], feedback.residual.read_value()
        session = v1.Session(graph=graph)
        session.run(collect_local_state().initializers)
    total, sent = np.zeros(length), np.zeros(length)
    for step, (codec_number, used) in enumerate(
        [(0, 1), (1, 1), (1, 1), (2, 1), (0, 0), (2, 1), (0, 1), (0, 1), (1, 1)]
    ):
        gradient = generator.normal(size=length).astype(np.float32) * used
        feeds = {vector: gradient, number: codec_number, seed: [1, step], is_used: bool(used)}
        sent += session.run(fetches, feeds)[0]
        total += gradient
        kept = session.run(residual)
        np.testing.assert_allclose(sent + kept, total, atol=1e-5)
        assert kept.any() == (step in (1, 2, 3, 4, 5, 8)), step
