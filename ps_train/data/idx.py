"""Reader of IDX files, the format of MNIST and similar data sets, plain or gzipped.

    images, labels = load("data/mnist", "train")      # uint8 [60000, 28, 28], uint8 [60000]

The format (http://yann.lecun.com/exdb/mnist/): two zero bytes, a type (8: unsigned byte), the number of dimensions,
each dimension as a big-endian 32-bit integer, then the values.
"""

from __future__ import annotations

import gzip
import pathlib
import zlib
from typing import Any

import numpy as np

from ps_train.base.errors import DataError
from ps_train.data.gzip_files import is_gzipped

__all__ = ["load"]

_PREFIX = {"train": "train", "test": "t10k"}
_UNSIGNED_BYTE = 8


def load(data_dir: str, split: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns images uint8 [n, rows, columns] and labels uint8 [n] of the split "train" or "test".

    Raises:
      DataError: a file is missing, unreadable or malformed; the message names the file and its fault.
    """
    prefix = _PREFIX[split]
    image_file = _find(data_dir, f"{prefix}-images-idx3-ubyte")
    label_file = _find(data_dir, f"{prefix}-labels-idx1-ubyte")
    images, labels = read(image_file, dimensions=3), read(label_file, dimensions=1)
    if len(images) != len(labels):
        raise DataError(f"{image_file} has {len(images)} images but {label_file} has {len(labels)} labels.")
    return images, labels


def read(path: pathlib.Path, dimensions: int) -> np.ndarray[Any, Any]:
    """Returns the values of one IDX file of unsigned bytes, uint8.

    Args:
      path: the file; plain or gzipped, as its first bytes say.
      dimensions: the number of dimensions that the file must have.

    Raises:
      DataError: the file is unreadable or malformed.
    """
    content = _bytes_of(path)
    magic = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    if content[:4] != magic:
        raise DataError(
            f"{path} starts with {content[:4].hex() or 'nothing'}; "
            f"an IDX file of bytes in {dimensions} dimensions starts with {magic.hex()}."
        )
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise DataError(f"{path} has {len(content)} bytes; its header alone has {header}.")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", dimensions, 4))
    expected = header + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise DataError(f"{path} has {len(content)} bytes; its header says {shape}, which makes {expected}.")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _find(data_dir: str, name: str) -> pathlib.Path:
    for candidate in (pathlib.Path(data_dir, name), pathlib.Path(data_dir, name + ".gz")):
        if candidate.is_file():
            return candidate
    raise DataError(f"neither {name} nor {name}.gz is in data_dir={data_dir or '(not given)'}: use --data_dir.")


def _bytes_of(path: pathlib.Path) -> bytes:
    try:
        if is_gzipped(path):
            with gzip.open(path) as file:
                return file.read()
        return path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
