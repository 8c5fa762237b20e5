"""Names of TensorFlow before 1.0, under which it still has the same functions.

    NAMES["mul"]                # tf.multiply
    SUMMARIES["scalar_summary"]("loss", loss)

Functions whose arguments have another order since then, such as `tf.concat`, are those of TensorFlow 1.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train.sync_replicas import SyncReplicasOptimizer

log = logging.getLogger(__name__)

_COLLECTION = v1.GraphKeys.SUMMARIES


def scalar_summary(tags: Any, values: Any, collections: Sequence[str] | None = None, name: str | None = None) -> Any:
    """Returns a summary of numbers, string.

    Args:
      tags: the name of each number in event files, of the shape of the values.
      values: the numbers.
      collections: that the summary joins; None for those of all summaries.
      name: of the operation.
    """
    return _collected(tf.raw_ops.ScalarSummary(tags=tags, values=values, name=name or "ScalarSummary"), collections)


def histogram_summary(tag: Any, values: Any, collections: Sequence[str] | None = None, name: str | None = None) -> Any:
    """Returns a summary of a distribution; the arguments are those of `scalar_summary`."""
    made = tf.raw_ops.HistogramSummary(tag=tag, values=values, name=name or "HistogramSummary")
    return _collected(made, collections)


def image_summary(
    tag: Any, tensor: Any, max_images: int = 3, collections: Sequence[str] | None = None, name: str | None = None
) -> Any:
    """Returns a summary of images [batch, height, width, channels]; the other arguments are of `scalar_summary`.

    Args:
      tag: the begin of the images' names.
      tensor: the images.
      max_images: images of a batch to show.
      collections: that the summary joins.
      name: of the operation.
    """
    made = tf.raw_ops.ImageSummary(tag=tag, tensor=tensor, max_images=max_images, name=name or "ImageSummary")
    return _collected(made, collections)


def audio_summary(
    tag: Any,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    name: str | None = None,
) -> Any:
    """Returns a summary of sounds [batch, frames] or [batch, frames, channels], between -1 and 1.

    Args:
      tag: the begin of the sounds' names.
      tensor: the sounds.
      sample_rate: frames a second.
      max_outputs: sounds of a batch to keep.
      collections: that the summary joins.
      name: of the operation.
    """
    made = tf.raw_ops.AudioSummaryV2(
        tag=tag, tensor=tensor, sample_rate=sample_rate, max_outputs=max_outputs, name=name or "AudioSummary"
    )
    return _collected(made, collections)


def merge_all_summaries(key: str = _COLLECTION) -> Any:
    """Returns all summaries of a collection as one; None if there are none."""
    return v1.summary.merge_all(key)


def _collected(summary: Any, collections: Sequence[str] | None) -> Any:
    for collection in [_COLLECTION] if collections is None else collections:
        v1.add_to_collection(collection, summary)
    return summary


SUMMARIES = {
    "audio_summary": audio_summary,
    "histogram_summary": histogram_summary,
    "image_summary": image_summary,
    "merge_all_summaries": merge_all_summaries,
    "merge_summary": v1.summary.merge,
    "scalar_summary": scalar_summary,
}
"""Functions of summaries, which `tf.contrib.deprecated` had as well."""

_OF_BATCHES = [
    "cholesky", "cholesky_solve", "fft", "fft2d", "fft3d", "ifft", "ifft2d", "ifft3d", "matmul", "matrix_band_part",
    "matrix_determinant", "matrix_diag", "matrix_diag_part", "matrix_inverse", "matrix_set_diag", "matrix_solve",
    "matrix_solve_ls", "matrix_transpose", "matrix_triangular_solve", "self_adjoint_eig", "self_adjoint_eigvals", "svd",
]  # fmt: skip
"""Functions that had a second name for batches."""


@functools.wraps(v1.constant)
def constant(value: Any, *arguments: Any, **options: Any) -> Any:
    """Returns a constant as `tf.compat.v1.constant`, also of a `range`, which Python 2 had as a list."""
    return v1.constant(list(value) if isinstance(value, range) else value, *arguments, **options)


NAMES: dict[str, Any] = {
    **SUMMARIES,
    "complex_abs": v1.abs,
    "constant": constant,
    "inv": v1.reciprocal,
    "listdiff": v1.setdiff1d,
    "mul": v1.multiply,
    "neg": v1.negative,
    "pack": v1.stack,
    "select": v1.where,
    "sub": v1.subtract,
    "unpack": v1.unstack,
    **{f"batch_{name}": getattr(v1, name) for name in _OF_BATCHES},
}


_ORDER = ("logits", "labels", "name")


def _with_arguments_in_order(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a loss that takes arguments without names in the order of TensorFlow before 1.0.

    TensorFlow 1 refuses them, so that such a call is of a program before 1.0.  TensorFlow 2 has the labels first: a
    line says how the arguments are read.
    """

    @functools.wraps(loss)
    def in_order(*given: Any, **named: Any) -> Any:
        if len(given) > len(_ORDER):
            raise TypeError(f"tf.nn.{loss.__name__} takes {', '.join(_ORDER)}: {len(given)} arguments are given")
        if given:
            _say_order(loss.__name__)
        return loss(**dict(zip(_ORDER, given, strict=False)), **named)

    in_order.__module__, in_order.__qualname__ = __name__, loss.__name__  # where pickle looks for it
    return in_order


@functools.cache
def _say_order(name: str) -> None:
    log.warning("tf.nn.%s: arguments without names are read as logits, labels, as before TensorFlow 1.0", name)


_LOSSES = [
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits",
]

NAMES_OF_NN = {
    **{name: _with_arguments_in_order(getattr(v1.nn, name)) for name in _LOSSES},
    "bidirectional_rnn": v1.nn.static_bidirectional_rnn,
    "rnn": v1.nn.static_rnn,
    "state_saving_rnn": v1.nn.static_state_saving_rnn,
}

NAMES_OF_IMAGE = {"per_image_whitening": v1.image.per_image_standardization}

NAMES_OF_TRAIN = {
    "SummaryWriter": v1.summary.FileWriter,
    "SyncReplicasOptimizerV2": SyncReplicasOptimizer,
}


def __getattr__(name: str) -> Any:
    """Returns one of the losses, which pickle looks for in this module."""
    if name not in _LOSSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return NAMES_OF_NN[name]
