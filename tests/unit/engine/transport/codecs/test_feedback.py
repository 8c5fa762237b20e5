"""Error feedback: nothing is lost, and momentum is corrected as by Lin et al. 2018."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.codecs.feedback import ErrorFeedback, Momentum
from ps_train.engine.transport.coding import codec_of
from ps_train.engine.variables.worker_state import collect_local_state

LENGTH = 600


class Sender:
    """Pushes vectors; `sent` is the sum of what arrives."""

    def __init__(self, text, momentum=None):
        codec = codec_of(text)
        with tf.Graph().as_default() as graph:
            self._vector = v1.placeholder(tf.float32, [LENGTH])
            self._seed, self._is_used = v1.placeholder(tf.int64, [2]), v1.placeholder(tf.bool, [])
            feedback = ErrorFeedback("residual", codec, LENGTH, momentum)
            parts, done = feedback.encode(self._vector, self._seed, self._is_used)
            self._residual = feedback.residual.read_value()
            self._fetches = [codec.decode(parts, LENGTH), done]
            self._session = v1.Session(graph=graph)
            self._session.run(collect_local_state().initializers)
        self._pushes = 0
        self.sent = np.zeros(LENGTH)

    def push(self, vector, is_used=True):
        self._pushes += 1
        feeds = {self._vector: vector, self._seed: [1, self._pushes], self._is_used: is_used}
        decoded = self._session.run(self._fetches, feeds)[0]
        self.sent += decoded
        return decoded

    @property
    def residual(self):
        return self._session.run(self._residual)


def gradients(count):
    generator = np.random.default_rng(11)
    return [
        (generator.normal(size=LENGTH) * 10.0 ** generator.integers(-3, 4)).astype(np.float32) for _ in range(count)
    ]


CODECS = ("bfloat16", "float16", "int8", "top_k:0.01", "top_k:0.05,int8")


@pytest.mark.parametrize("text", CODECS)
def test_what_is_sent_and_what_is_kept_are_all_there_is(text):
    sender, vectors = Sender(text), gradients(40)
    for vector in vectors:
        sender.push(vector)
    total = np.sum(vectors, 0, dtype=np.float64)
    assert np.abs(sender.sent + sender.residual - total).max() < 1e-5 * np.abs(vectors).max() * len(vectors) ** 0.5
    assert np.abs(sender.residual).max() > 0


@pytest.mark.parametrize("text", CODECS)
def test_a_push_that_the_receiver_ignores_sends_and_keeps_nothing(text):
    sender = Sender(text)
    sender.push(gradients(1)[0])
    before = sender.residual
    assert not sender.push(np.zeros(LENGTH, np.float32), is_used=False).any()
    sender.push(np.full(LENGTH, np.nan, np.float32), is_used=False)
    assert np.array_equal(sender.residual, before)


def test_float16_sends_later_what_is_beyond_its_range():
    sender = Sender("float16")
    sender.push(np.full(LENGTH, 150_000, np.float32))
    for _ in range(2):
        sender.push(np.zeros(LENGTH, np.float32))
    assert sender.sent == pytest.approx(150_000)
    assert not sender.residual.any()


@pytest.mark.parametrize("use_nesterov", [False, True], ids=["plain", "nesterov"])
def test_velocities_are_added_up_and_forgotten_where_they_are_sent(use_nesterov):
    sender = Sender("top_k:0.1", Momentum(0.9, use_nesterov))
    velocity, kept = np.zeros(LENGTH), np.zeros(LENGTH)
    for vector in gradients(20):
        velocity = 0.9 * velocity + vector
        kept = kept + (vector + 0.9 * velocity if use_nesterov else velocity)
        chosen = np.argsort(-np.abs(kept))[:60]
        expected = np.zeros(LENGTH)
        expected[chosen] = kept[chosen]
        kept[chosen] = velocity[chosen] = 0
        assert sender.push(vector) == pytest.approx(expected, rel=1e-4)


def test_without_compression_momentum_is_that_of_the_optimizer():
    sender, vectors = Sender("top_k:1.0", Momentum(0.9, False)), gradients(5)
    for vector in vectors:  # all is sent, so no velocity is left
        assert sender.push(vector) == pytest.approx(vector)
