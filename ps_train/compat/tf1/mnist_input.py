"""The module `tensorflow.examples.tutorials.mnist.input_data` of TensorFlow 1.

    mnist = read_data_sets("MNIST_data/", one_hot=True)
    images, labels = mnist.train.next_batch(100)        # float32 [100, 784], float64 [100, 10]

It reads the files of MNIST from the directory, and downloads nothing.  Where they are missing, it gives the digits that
ship with ps_train, enlarged to 28x28, and says so in one line.
"""

from __future__ import annotations

import collections
import contextlib
import logging
from typing import Any

import numpy as np

from ps_train.base.errors import DataError
from ps_train.data import digits, idx

__all__ = ["DataSet", "Datasets", "read_data_sets"]

log = logging.getLogger(__name__)

_CLASSES, _SIDE = 10, 28

Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])


class DataSet:
    """Images and labels in an order that changes with each epoch.

    Args:
      labels: their labels.
      seed: of the order; None: another one in each process.
    """

    def __init__(self, images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], seed: int | None = None) -> None:
        self._images, self._labels = images, labels
        self._random = np.random.default_rng(seed)
        self._order = np.arange(len(images))
        self._position = 0
        self._epochs = 0
        self._is_shuffled = False

    @property
    def images(self) -> np.ndarray[Any, Any]:
        """All images."""
        return self._images

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        """All labels."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """The number of images."""
        return len(self._images)

    @property
    def epochs_completed(self) -> int:
        """The number of times that all images were used."""
        return self._epochs

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Returns the next images and labels; a batch may reach into the next epoch.

        Args:
          batch_size: the number of images.
          fake_data: not used.
          shuffle: whether each epoch has a new order.
        """
        if not self._is_shuffled:
            self._reorder(shuffle)
        chosen: list[np.ndarray[Any, Any]] = []
        missing = batch_size
        while missing:
            part = self._order[self._position : self._position + missing]
            chosen.append(part)
            missing -= len(part)
            self._position += len(part)
            if self._position == len(self._order):
                self._epochs += 1
                self._reorder(shuffle)
        rows = np.concatenate(chosen) if chosen else self._order[:0]
        return self._images[rows], self._labels[rows]

    def _reorder(self, shuffle: bool) -> None:
        self._is_shuffled, self._position = True, 0
        if shuffle:
            self._order = self._random.permutation(self._order)  # a new array: a batch may still read the old one


def read_data_sets(
    train_dir: str = "",
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = np.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    **options: Any,
) -> Any:
    """Returns data sets with the attributes train, validation and test.

    Args:
      train_dir: directory of the four files of MNIST, gzipped or not.
      fake_data: not used.
      one_hot: labels float64 [n, 10] instead of integers [n].
      dtype: of the images, which are 0 to 1; uint8: 0 to 255.
      reshape: images [n, 784] instead of [n, 28, 28, 1].
      validation_size: images taken from the training set; at most a tenth of it.
      **options: `seed` of the order; `source_url` is not used.
    """
    seed = options.get("seed")
    found = {split: _load(train_dir, split) for split in ("train", "test")}
    if any(split is None for split in found.values()):
        log.debug("%s has no MNIST", train_dir)
        print(f"no MNIST files in {train_dir or 'the directory'}: using the digits that ship with ps_train", flush=True)
        found = {split: _enlarged(*digits.load(split)) for split in ("train", "test")}

    def made(images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> DataSet:
        is_bytes = np.dtype(getattr(dtype, "as_numpy_dtype", dtype)) == np.uint8
        images = images if is_bytes else images.astype(np.float32) / 255.0
        images = images.reshape(len(images), -1) if reshape else images[..., np.newaxis]
        return DataSet(images, np.eye(_CLASSES)[labels] if one_hot else labels, seed)

    images, labels = found["train"] or _nothing()
    size = min(validation_size, len(images) // 10)
    test = found["test"] or _nothing()
    return Datasets(made(images[size:], labels[size:]), made(images[:size], labels[:size]), made(*test))


def _load(directory: str, split: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    with contextlib.suppress(DataError):
        return idx.load(directory, split)
    return None


def _nothing() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.zeros([0, _SIDE, _SIDE], np.uint8), np.zeros([0], np.uint8)


def _enlarged(
    images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns images float32 [n, 64] as uint8 [n, 28, 28]: each pixel 3x3 times, and a frame of 2."""
    square = (images.reshape(-1, 8, 8) * 255).astype(np.uint8)
    large = square.repeat(3, axis=1).repeat(3, axis=2)
    return np.pad(large, ((0, 0), (2, 2), (2, 2))), labels.astype(np.uint8)
