"""Places of the records of a TFRecord file, so that a replica can begin to read in the middle.

    index = index_of("data/train-0")
    index.count                                 # number of records
    index.place(700)                            # RecordPlace(offset, skip): it is `skip` records after byte `offset`

A record begins with its length, so the places are found by going through the whole file once.  They are kept beside the
file, as `.train-0.ps_train_index`, if its directory can be written, and else in this process's memory.  Kept places
are used while the file has the same size and time of its last change.

Only plain files on local disks have an index.  The module does not look into records.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import logging
import os
import pathlib
import struct
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from ps_train.base.errors import DataError
from ps_train.data.file_names import INDEX_SUFFIX

log = logging.getLogger(__name__)

IntArray = np.ndarray[Any, Any]

_MAGIC = 0x5844_4E49_5254_5350
"""First eight bytes of a kept index."""

HEADER_BYTES, FOOTER_BYTES = 12, 4
"""Bytes before and after the content of a record: its length with a checksum, and a checksum."""

_CASTAGNOLI = 0x82F63B78
"""Polynomial of CRC-32C (RFC 3720), with its bits reversed."""

_MASK = 0xA282EAD8
"""What the format adds to a rotated checksum, so that checksums of checksums are no special case."""


@dataclasses.dataclass(frozen=True)
class RecordPlace:
    """The place of a record.

    Attributes:
      offset: byte at which an earlier record begins, or this one.
      skip: number of records from there to this one.
    """

    offset: int
    skip: int


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """The places of some records of a file.

    Attributes:
      count: number of records in the file.
      offsets: bytes at which the known records begin, ascending.
      numbers: numbers of these records, counted from 0.
    """

    count: int
    offsets: Sequence[int] | IntArray
    numbers: Sequence[int] | IntArray

    def place(self, number: int) -> RecordPlace:
        """Returns the place of a record; `number` is less than `count`."""
        known = bisect.bisect_right(self.numbers, number) - 1
        return RecordPlace(int(self.offsets[known]), number - int(self.numbers[known]))

    def content(self, size: int, changed: int) -> bytes:
        """Returns the index as `parse` reads it; see there for the arguments."""
        known = np.column_stack([np.asarray(self.offsets, "<i8"), np.asarray(self.numbers, "<i8")])
        return np.concatenate([np.array([[_MAGIC, self.count], [size, changed]], "<i8"), known]).tobytes()


def is_header(content: bytes) -> bool:
    """Returns True for the bytes before a record: its length, uint64, and the masked checksum of it, uint32."""
    if len(content) != HEADER_BYTES:
        return False
    return masked_checksum(content[:8]) == struct.unpack("<I", content[8:])[0]


def masked_checksum(content: bytes) -> int:
    """Returns the checksum of some bytes as the format stores it: CRC-32C, rotated and masked."""
    table, rest = _remainders(), 0xFFFFFFFF
    for byte in content:
        rest = rest >> 8 ^ table[(rest ^ byte) & 0xFF]
    rest ^= 0xFFFFFFFF
    return ((rest >> 15 | rest << 17) + _MASK) & 0xFFFFFFFF


@functools.cache
def _remainders() -> list[int]:
    """Returns the remainder of each byte."""
    table = list(range(256))
    for _ in range(8):
        table = [rest >> 1 ^ (_CASTAGNOLI if rest & 1 else 0) for rest in table]
    return table


def index_of(path: str) -> RecordIndex:
    """Returns the index of a plain file on a local disk.

    Raises:
      DataError: the file cannot be read, or its last record is cut off.
    """
    try:
        status = os.stat(path)
        return _index_of(os.path.realpath(path), status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


@functools.lru_cache(maxsize=1024)
def _index_of(path: str, size: int, changed: int) -> RecordIndex:
    kept = pathlib.Path(path).with_name(f".{os.path.basename(path)}{INDEX_SUFFIX}")
    if found := _load(kept, size, changed):
        return found
    found = scan(path)
    _keep(kept, found, size, changed)
    return found


def scan(path: str, every_bytes: int = 1 << 16) -> RecordIndex:
    """Returns the index of a file, made by going through it.

    Args:
      path: of the file.
      every_bytes: bytes between two known places, of which a replica skips at most one: few are fast, many are small.

    Raises:
      DataError: the last record is cut off.
    """
    offsets: list[int] = []
    numbers: list[int] = []
    position, number = 0, 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while position < size:
            header = file.read(HEADER_BYTES)
            (length,) = struct.unpack_from("<Q", header) if len(header) == HEADER_BYTES else (size,)
            end = position + HEADER_BYTES + length + FOOTER_BYTES
            if end > size:
                raise DataError(
                    f"{path} is damaged or cut off: record {number}, at byte {position}, does not fit into its {size} "
                    "bytes: replace it."
                )
            if not offsets or position >= offsets[-1] + every_bytes:
                offsets.append(position)
                numbers.append(number)
            file.seek(length + FOOTER_BYTES, os.SEEK_CUR)
            position, number = end, number + 1
    return RecordIndex(number, offsets, numbers)


def parse(content: bytes, size: int, changed: int) -> RecordIndex | None:
    """Returns a kept index, or None if it is of another file or damaged.

    Args:
      content: bytes of the kept index.
      size: bytes of the data file.
      changed: time of its last change, in ns.
    """
    if len(content) % 16 or len(content) < 32:
        return None
    values = np.frombuffer(content, "<i8").reshape(-1, 2)
    (magic, count), known = values[0], values[2:]
    if magic != _MAGIC or tuple(values[1]) != (size, changed) or (count == 0) != (len(known) == 0) or count < 0:
        return None
    if len(known) and (known[0].any() or (np.diff(known, axis=0) <= 0).any() or (known[-1] >= (size, count)).any()):
        return None
    return RecordIndex(int(count), known[:, 0], known[:, 1])


def _load(kept: pathlib.Path, size: int, changed: int) -> RecordIndex | None:
    try:
        return parse(kept.read_bytes(), size, changed)
    except OSError:
        return None


def _keep(kept: pathlib.Path, index: RecordIndex, size: int, changed: int) -> None:
    """Writes an index as a whole: several processes may do so at once, and their indices are equal."""
    new = kept.with_name(f".{uuid.uuid4().hex}{INDEX_SUFFIX}")
    try:
        new.write_bytes(index.content(size, changed))
        new.replace(kept)
    except OSError as error:
        log.info("the index %s is kept in memory only: %s", kept, error.strerror or error)
        with contextlib.suppress(OSError):
            new.unlink()
