"""Images in memory whose pixels change at random whenever they are read: augmentation inside of tf.data.

    return AugmentedImages(images, labels)      # in a model's data("train"); uint8 [n, rows, columns, channels]

Only the indices of the images are shuffled.  Images are read and changed many at a time, as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.data import RandomAccessChunks, Stream

__all__ = ["AugmentedImages", "crop_and_flip"]

_CHUNK = 256
_LARGEST = np.iinfo(np.int64).max


def crop_and_flip(images: tf.Tensor, seed: tf.Tensor, padding: int = 4) -> tf.Tensor:
    """Returns each image after a random shift, and mirrored or not: the augmentation of He et al. 2015.

    An image is padded with zeros on all sides, and a window of its own size is cut out at random.  Half of the images
    are mirrored horizontally.  See "Deep Residual Learning for Image Recognition", section 4.2.

    Args:
      images: [n, rows, columns, channels], of any dtype.
      seed: int64 [2], which decides all shifts and flips.
      padding: most pixels of a shift in each direction.

    Returns:
      images of the same shape and dtype.
    """
    count, rows, columns = tf.shape(images)[0], images.shape[1], images.shape[2]
    first, second, third = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    most = 2 * padding + 1
    down = tf.random.stateless_uniform([count, 1], first, maxval=most, dtype=tf.int32)
    right = tf.random.stateless_uniform([count, 1], second, maxval=most, dtype=tf.int32)
    is_mirrored = tf.random.stateless_uniform([count, 1], third, maxval=2, dtype=tf.int32) > 0
    across = tf.range(columns)
    padded = tf.pad(images, [[0, 0], [padding, padding], [padding, padding], [0, 0]])
    cut = tf.gather(padded, down + tf.range(rows), axis=1, batch_dims=1)
    return tf.gather(cut, right + tf.where(is_mirrored, columns - 1 - across, across), axis=2, batch_dims=1)


class AugmentedImages(Stream):
    """A training split of images; every epoch has each image once, with other random changes.

    The changes depend on --seed and the replica.  Under --sharding=dynamic they also depend on the shards that the
    replica has read before.

    Args:
      images: [n, rows, columns, channels].
      labels: [n, ...].
      augment: takes images [m, rows, columns, channels] and a seed, int64 [2], and returns images to train on.
    """

    def __init__(
        self,
        images: np.ndarray[Any, Any],
        labels: np.ndarray[Any, Any],
        augment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = crop_and_flip,
    ) -> None:
        self._images, self._labels, self._augment = images, labels, augment

    def chunks(self, shard: Any, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns one epoch over a shard; image i belongs to shard i mod count."""
        rows = tf.data.Dataset.range(len(self._labels)).shard(shard.count, shard.index)
        if seed is not None:
            rows = rows.shuffle(-(-len(self._labels) // shard.count), seed=seed)
        numbers = tf.data.Dataset.random(shard.index if seed is None else seed, rerandomize_each_iteration=True)
        return tf.data.Dataset.zip((rows.batch(_CHUNK), numbers)).map(_no_autograph(self._read))

    def pieces(self) -> RandomAccessChunks:
        """Returns runs of 256 images, which are the shards under --sharding=dynamic."""
        count = len(self._labels)

        def read(number: tf.Tensor) -> Any:
            begin = number * _CHUNK
            rows = tf.range(begin, tf.minimum(begin + _CHUNK, count))
            # The numbers depend on the graph's seed too, which differs between replicas.
            return self._read(rows, tf.random.uniform([], maxval=_LARGEST, dtype=tf.int64, seed=1))

        return RandomAccessChunks(-(-count // _CHUNK), f"{count}_images_by_{_CHUNK}", read)

    def _read(self, rows: tf.Tensor, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the images of some rows, changed as a random number says, and their labels."""

        def take(rows: Any) -> Any:
            return self._images[rows], self._labels[rows]

        found = tf.numpy_function(take, [rows], [self._images.dtype, self._labels.dtype])
        images, labels = (
            tf.ensure_shape(values, [None, *array.shape[1:]])
            for values, array in zip(found, (self._images, self._labels), strict=True)
        )
        return self._augment(images, tf.stack([number, tf.zeros_like(number)])), labels


def _no_autograph(function: Any) -> Any:
    """Exempts a function of a dataset from AutoGraph, which would write it into a temporary file."""
    return tf.autograph.experimental.do_not_convert(function)
