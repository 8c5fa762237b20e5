"""The functions of `tf.contrib.crf`: a conditional random field over the tags of a sequence.

likelihood, transitions = crf_log_likelihood(scores, tags, lengths)
loss = tf.reduce_mean(-likelihood)
best, score = crf_decode(scores, transitions, lengths)

The score of a sequence of tags is the sum of the score of each tag at its position, float [batch, positions, tags], and
of the score of each pair of neighbours, float [tags, tags].  Positions behind the end of a sequence do not count.
(Lafferty, McCallum, Pereira 2001.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = [
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """Returns the logarithm of the probability of the tags, float [batch], and the scores of pairs.

    Args:
      inputs: float [batch, positions, tags], scores of the tags at each position.
      tag_indices: int [batch, positions], the tags.
      sequence_lengths: int [batch], the number of positions of each sequence.
      transition_params: float [tags, tags], scores of pairs; None: the variable `transitions`.
    """
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        size = inputs.shape.as_list()[2]
        transition_params = v1.get_variable("transitions", [size, size])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Returns the score of the tags, float [batch]; the arguments are those of `crf_log_likelihood`."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """Returns the sum of the tags' own scores, float [batch]; the arguments are those of `crf_log_likelihood`."""
    scores = tf.gather(inputs, tag_indices, batch_dims=2)
    return tf.reduce_sum(scores * _mask(sequence_lengths, scores), 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Returns the sum of the pairs' scores, float [batch]; the arguments are those of `crf_log_likelihood`."""
    tags = tf.convert_to_tensor(tag_indices)
    scores = tf.gather_nd(transition_params, tf.stack([tags[:, :-1], tags[:, 1:]], -1))
    return tf.reduce_sum(scores * _mask(tf.cast(sequence_lengths, tf.int32) - 1, scores), 1)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Returns the logarithm of the sum of exp(score) of all sequences of tags, float [batch]; 0 for no positions.

    The arguments are those of `crf_log_likelihood`.
    """
    first, *rest = _by_position(inputs)
    lengths = tf.cast(sequence_lengths, tf.int32)

    def step(before: Any, at: Any) -> Any:
        scores, position = at
        new = scores + tf.reduce_logsumexp(before[:, :, tf.newaxis] + transition_params, 1)
        return tf.where((position < lengths)[:, tf.newaxis], new, before)

    norm = tf.reduce_logsumexp(tf.foldl(step, tuple(rest), first), 1)
    return tf.where(lengths > 0, norm, tf.zeros_like(norm))


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """Returns the tags with the highest score, int32 [batch, positions], and this score, float [batch].

    Args:
      potentials: float [batch, positions, tags], scores of the tags at each position.
      transition_params: float [tags, tags], scores of pairs.
      sequence_length: int [batch], the number of positions of each sequence; tags behind its end are 0.
    """
    first, *rest = _by_position(potentials)
    lengths = tf.cast(sequence_length, tf.int32)
    same = tf.zeros_like(first, tf.int32) + tf.range(tf.shape(first)[1])  # behind the end the tag stays

    def step(before: Any, at: Any) -> Any:
        (scores, position), (best, _) = at, before
        pairs = best[:, :, tf.newaxis] + transition_params
        is_in = (position < lengths)[:, tf.newaxis]
        origins = tf.where(is_in, tf.argmax(pairs, 1, tf.int32), same)
        return tf.where(is_in, scores + tf.reduce_max(pairs, 1), best), origins

    bests, origins = tf.scan(step, tuple(rest), (first, same))
    last = tf.concat([first[tf.newaxis], bests], 0)[-1]
    end = tf.argmax(last, 1, tf.int32)
    others = tf.scan(lambda tag, origin: tf.gather(origin, tag, batch_dims=1), origins, end, reverse=True)
    tags = tf.transpose(tf.concat([others, end[tf.newaxis]], 0))
    return tags * _mask(lengths, tags), tf.reduce_max(last, 1)


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """Returns the tags with the highest score of one sequence, and this score, without TensorFlow.

    Args:
      score: array [positions, tags], scores of the tags at each position.
      transition_params: array [tags, tags], scores of pairs.
    """
    best, origins = np.asarray(score[0]), []
    for scores in score[1:]:
        pairs = best[:, np.newaxis] + transition_params
        origins.append(np.argmax(pairs, 0))
        best = scores + np.max(pairs, 0)
    tags = [int(np.argmax(best))]
    for origin in reversed(origins):
        tags.append(int(origin[tags[-1]]))
    return tags[::-1], np.max(best)


def _by_position(inputs: Any) -> tuple[Any, Any, Any]:
    """Returns the scores of the first position, those of the others, with the position first, and their numbers."""
    ordered = tf.transpose(inputs, [1, 0, 2])
    return ordered[0], ordered[1:], tf.range(1, tf.shape(ordered)[0])


def _mask(lengths: Any, values: Any) -> Any:
    """Returns 1 for each position of a sequence and 0 behind its end, of the shape and type of the values."""
    return tf.sequence_mask(lengths, tf.shape(values)[1], values.dtype)
