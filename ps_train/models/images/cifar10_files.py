"""Reader of CIFAR-10's binary version: 60,000 colour images of 32x32 in 10 classes.

    images, labels = load_cifar10("data/cifar10", "train")      # uint8 [50000, 32, 32, 3], int64 [50000]

The format (https://www.cs.toronto.edu/~kriz/cifar.html): a file has 10,000 records of 3,073 bytes each.  A record is
the label, 0 to 9, and then the red, the green and the blue values of the 32x32 pixels, row by row.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from ps_train import DataError

__all__ = ["load_cifar10"]

_FILES = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
_FOLDER = "cifar-10-batches-bin"
_RECORDS, _CLASSES = 10_000, 10
_COLOURS, _ROWS, _COLUMNS = 3, 32, 32
_BYTES = 1 + _COLOURS * _ROWS * _COLUMNS


def load_cifar10(data_dir: str, split: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns images uint8 [n, 32, 32, 3] and labels int64 [n] of the split "train" or "test".

    Args:
      data_dir: directory of the split's files, or of the folder cifar-10-batches-bin with these files.
      split: "train", which is five files with 50,000 images, or "test", one file with 10,000.

    Raises:
      DataError: a file is missing, unreadable or malformed; the message names the file and its fault.
    """
    paths = _find(data_dir, _FILES[split])
    images = np.empty((len(paths), _RECORDS, _ROWS, _COLUMNS, _COLOURS), np.uint8)
    labels = np.empty((len(paths), _RECORDS), np.int64)
    for index, path in enumerate(paths):
        records = _read(path)
        labels[index] = records[:, 0]
        images[index] = records[:, 1:].reshape(_RECORDS, _COLOURS, _ROWS, _COLUMNS).transpose(0, 2, 3, 1)
    return images.reshape(-1, _ROWS, _COLUMNS, _COLOURS), labels.reshape(-1)


def _find(data_dir: str, names: list[str]) -> list[pathlib.Path]:
    """Returns the paths of a split's files, from the directory or its folder, whichever has more of them."""
    root = pathlib.Path(data_dir)
    places = [[folder / name for name in names] for folder in (root, root / _FOLDER)]
    paths = max(places, key=lambda paths: sum(path.is_file() for path in paths))
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise DataError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not in data_dir={data_dir or '(not given)'} "
            f"or its folder {_FOLDER}: unpack cifar-10-binary.tar.gz there, or use another --data_dir."
        )
    return paths


def _read(path: pathlib.Path) -> np.ndarray[Any, Any]:
    """Returns the records of a file, uint8 [10000, 3073]."""
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    if len(content) != _RECORDS * _BYTES:
        raise DataError(
            f"{path} has {len(content)} bytes, but a file of CIFAR-10 has {_RECORDS * _BYTES} ({_RECORDS} records of "
            f"{_BYTES}): unpack cifar-10-binary.tar.gz again."
        )
    records = content.reshape(_RECORDS, _BYTES)
    wrong = np.flatnonzero(records[:, 0] >= _CLASSES)
    if len(wrong):
        raise DataError(
            f"{path} has the label {records[wrong[0], 0]} in record {wrong[0]}, but labels of CIFAR-10 are 0 to "
            f"{_CLASSES - 1}: unpack cifar-10-binary.tar.gz again."
        )
    return records
