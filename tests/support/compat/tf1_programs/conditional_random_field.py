"""contrib.crf against all sequences of tags, one by one."""

import itertools

import numpy as np
import tensorflow as tf
from tensorflow.contrib import crf
from tensorflow.contrib.crf import crf_decode, crf_log_likelihood, viterbi_decode

assert crf.crf_decode is crf_decode is tf.contrib.crf.crf_decode

BATCH, POSITIONS, TAGS = 3, 4, 3
random = np.random.RandomState(0)
scores = random.normal(size=[BATCH, POSITIONS, TAGS]).astype(np.float32)
pairs = random.normal(size=[TAGS, TAGS]).astype(np.float32)
tags = random.randint(0, TAGS, size=[BATCH, POSITIONS])
lengths = np.array([4, 2, 1])


def score(row, chosen):
    own = sum(scores[row, position, tag] for position, tag in enumerate(chosen))
    return own + sum(pairs[one, two] for one, two in itertools.pairwise(chosen))


likelihood, given = crf_log_likelihood(scores, tags, lengths, tf.constant(pairs))
decoded, best = crf_decode(scores, pairs, lengths)
made, transitions = crf_log_likelihood(tf.constant(scores), tags, lengths)
optimizer = tf.train.GradientDescentOptimizer(0.5).minimize(-tf.reduce_mean(made))
assert [variable.op.name for variable in tf.trainable_variables()] == ["transitions"]
none = crf.crf_log_norm(scores, [0, 0, 0], pairs)
single = crf_decode(scores[:, :1], pairs, [1, 1, 1])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    found, chosen, highest = session.run([likelihood, decoded, best])
    for row, length in enumerate(lengths):
        every = {each: score(row, each) for each in itertools.product(range(TAGS), repeat=int(length))}
        norm = np.log(np.sum(np.exp(list(every.values()))))
        np.testing.assert_allclose(found[row], score(row, tags[row, :length]) - norm, rtol=1e-4)
        first = max(every, key=every.get)
        assert chosen[row].tolist() == [*first, *[0] * (POSITIONS - length)]
        np.testing.assert_allclose(highest[row], every[first], rtol=1e-5)
        alone = viterbi_decode(scores[row, :length], pairs)
        assert alone[0] == list(first) and np.isclose(alone[1], every[first])
    before = session.run(made).mean()
    for _ in range(5):
        session.run(optimizer)
    assert session.run(made).mean() > before
    assert session.run(none).tolist() == [0, 0, 0]
    np.testing.assert_array_equal(session.run(single)[0], scores[:, :1].argmax(2))
