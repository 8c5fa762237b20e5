"""Check that a TFRecord file has been read to its end, with words for what is wrong with it.

    check_all_read("data/train-0", "GZIP", offset=0, skip=0, take=-1, read=np.array([700, 31_000]))

TensorFlow's reader takes a file that ends within the length of a record, or in the middle of gzip's data, for complete,
and names no file in its errors.  The bytes of the records that it has read tell whether they are all.  Only a file
of which some are missing is gone through here.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from typing import IO, Any

from tensorflow.io import gfile

from ps_train.data.record_index import FOOTER_BYTES, HEADER_BYTES, is_header, masked_checksum
from ps_train.data.stream import pipeline_error


def check_all_read(
    path: str, compression: str, offset: int, skip: int, take: int, read: Any, copy: str | None = None
) -> None:
    """Checks that all records of a part of a file have been read.

    Args:
      path: of the file.
      compression: "GZIP", "ZLIB" or "".
      offset: byte at which the part begins.
      skip: number of records from there that do not belong to it.
      take: number of its records, or -1 for all.
      read: the numbers of records and of bytes that have been read, int64 [2].
      copy: the file that was read, if it is a copy of that at `path`.

    Raises:
      Exception: for Python code inside a pipeline: the file is damaged or cut off.
    """
    count, size = map(int, read)
    copy = copy or path
    if (count == take) if take >= 0 else _is_size(copy, compression, size):
        return
    start, number = (offset, None) if take >= 0 else (size, count)
    try:
        with _opened(copy, compression) as file:
            fault, end = _fault_from(file, start, number)
    except (OSError, EOFError, zlib.error) as error:
        way = f" as {compression}" if compression else ""
        raise pipeline_error(f"{path} cannot be read{way}: {str(error).rstrip('.')}.") from None
    if fault:
        raise pipeline_error(f"{path} is {fault}: replace it.")
    if take >= 0 or end != size:
        raise OSError(f"{path} could not be read to its end")


def _is_size(path: str, compression: str, size: int) -> bool:
    """Returns True if this is the size of a file's content, False also if the size cannot be found without reading."""
    if not compression:
        return bool(gfile.stat(path).length == size)
    if compression != "GZIP":
        return False
    with gfile.GFile(path, "rb") as file:
        file.seek(max(0, file.size() - 4))
        end = file.read(4)
    return len(end) == 4 and struct.unpack("<I", end)[0] == size % (1 << 32)


def _opened(path: str, compression: str) -> Any:
    file = gfile.GFile(path, "rb")
    if compression == "GZIP":
        return gzip.GzipFile(fileobj=file)
    return io.BytesIO(zlib.decompress(file.read())) if compression == "ZLIB" else file


def _fault_from(file: IO[bytes], position: int, number: int | None) -> tuple[str, int]:
    """Returns the first fault from a record on, and where it is; "" and the end of the file if there is none.

    Args:
      file: the content of a TFRecord file.
      position: byte at which a record begins.
      number: of this record, if it is known.
    """
    file.seek(position)
    while header := file.read(HEADER_BYTES):
        where = f"the record at byte {position}" if number is None else f"record {number}, at byte {position}"
        if len(header) < HEADER_BYTES:
            return f"cut off within the length of {where}", position
        if not is_header(header):
            return f"damaged, or compressed in another way: the length of {where}, has a wrong checksum", position
        (length,) = struct.unpack_from("<Q", header)
        content = file.read(length + FOOTER_BYTES)
        if len(content) < length + FOOTER_BYTES:
            return f"cut off within {where}", position
        if masked_checksum(content[:length]) != struct.unpack("<I", content[length:])[0]:
            return f"damaged: {where}, has a wrong checksum", position
        position += HEADER_BYTES + length + FOOTER_BYTES
        number = None if number is None else number + 1
    return "", position
