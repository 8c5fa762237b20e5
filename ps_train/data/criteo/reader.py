"""A Stream of click records, parsed many lines at a time by TensorFlow's string operations.

    data = Criteo(files_of("data/criteo", "train"), max_bad_lines=100)

An example is `(features, label)`:

    integers     float32 [13]   the unscaled integers; 0 if missing
    present      float32 [13]   1, or 0 if the integer is missing
    categories   int64 [26]     the value of the hexadecimal digits, 0 .. 2**32 - 1; -1 if missing
    label        float32        1 for a click
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.bad_records import MAX_BAD_RECORDS, BadRecords
from ps_train.data.criteo.bad_lines import LINE, describe_error
from ps_train.data.criteo.files import HOLD_OUT_EVERY, SplitFiles, SplitPart
from ps_train.data.criteo.format import COLUMNS, INTEGERS
from ps_train.data.stream import RandomAccessChunks, Stream, no_autograph, pipeline_error
from ps_train.data.text_lines import BLOCK_BYTES, LineRange, line_blocks, line_dataset, place_of_line

if TYPE_CHECKING:
    from ps_train.data.data_shard import DataShard

_EACH_BYTE = 0x0101010101010101


class Criteo(Stream):
    """The lines of files that belong to a split.

    Args:
      split: the files, and the rule that selects their lines.
      max_bad_lines: malformed lines that this process may skip; one more raises a `data_error`.  None: the value of
        `set_max_bad_lines` applies.
      block_bytes: bytes of one read.
    """

    def __init__(self, split: SplitFiles, max_bad_lines: int | None = None, block_bytes: int = BLOCK_BYTES) -> None:
        if not any(path.stat().st_size for path in split.files):
            raise DataError(f"{', '.join(map(str, split.files))}: no lines found; put data into the file.")
        self._split, self._block_bytes = split, block_bytes
        self._by_flag = max_bad_lines is None
        self.bad_records: BadRecords = BadRecords("line", MAX_BAD_RECORDS if max_bad_lines is None else max_bad_lines)

    def set_max_bad_lines(self, bad_lines: int) -> None:
        """Sets the limit, unless the constructor was given one."""
        if self._by_flag:
            super().set_max_bad_lines(bad_lines)

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns one epoch over a shard; a chunk is the well-formed lines of the split in one block."""
        lines = line_dataset(self._split.files, shard, seed, self._block_bytes)
        return lines.map(no_autograph(self._examples), num_parallel_calls=tf.data.AUTOTUNE).filter(
            no_autograph(_not_empty)
        )

    def pieces(self) -> RandomAccessChunks | None:
        """Returns the blocks of plain files, by index; None if a file is gzipped."""
        files = self._split.files
        found = line_blocks(files, self._block_bytes)
        if found is None:  # a gzipped file can be read from its beginning only
            return None
        count, lines = found
        name = f"{sum(path.stat().st_size for path in files)}_bytes_by_{self._block_bytes}"
        return RandomAccessChunks(count, name, lambda number: self._examples(lines(number)))

    def _examples(self, lines: LineRange) -> Any:
        well_formed = tf.strings.regex_full_match(lines.lines, LINE)
        kept = tf.cond(tf.reduce_all(well_formed), lambda: lines.lines, lambda: self._skip(lines, well_formed))
        if self._split.part != SplitPart.ALL:
            held_out = tf.equal(tf.strings.to_hash_bucket_fast(kept, HOLD_OUT_EVERY), 0)
            selected = held_out if self._split.part == SplitPart.HELD_OUT else tf.logical_not(held_out)
            kept = tf.boolean_mask(kept, selected)
        return parse(kept)

    def _skip(self, lines: LineRange, well_formed: tf.Tensor) -> tf.Tensor:
        def count(file: Any, first: Any, step: Any, texts: Any, good: Any) -> Any:
            path = self._split.files[int(file)]

            def describe(index: int) -> str:
                return f"{place_of_line(path, int(first), int(step), index)}: {describe_error(texts[index])}"

            for index in np.flatnonzero(~good).tolist():
                message = self.bad_records.add((int(file), int(first), index), functools.partial(describe, index))
                if message:
                    raise pipeline_error(message)
            return good

        counted = tf.numpy_function(count, [*lines, well_formed], tf.bool)
        return tf.boolean_mask(lines.lines, tf.ensure_shape(counted, [None]))


def parse(lines: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Returns (features, labels) of well-formed lines, string [n]; see the module for shapes."""
    fields = tf.reshape(tf.strings.split(lines, "\t").values, [-1, COLUMNS])
    written = fields[:, 1 : 1 + INTEGERS]
    present = tf.not_equal(written, "")
    features = {
        "integers": tf.strings.to_number(tf.where(present, written, "0")),
        "present": tf.cast(present, tf.float32),
        "categories": from_hexadecimal(fields[:, 1 + INTEGERS :]),
    }
    return features, tf.strings.to_number(fields[:, 0])


def from_hexadecimal(digits: tf.Tensor) -> tf.Tensor:
    """Returns the values of strings of up to 8 hexadecimal digits, int64 of the same shape; -1 for an empty string.

    TensorFlow has no operation for it.  Eight digits are the eight bytes of one int64, with the first digit in the
    lowest byte.  All bytes become digit values at once; then neighbours are joined in three steps, 2, 4 and 8 digits.
    """
    text = tf.squeeze(tf.io.decode_raw(digits, tf.int64, fixed_length=8), -1)
    letter = _shift_right(text, 6) & _EACH_BYTE  # only letters have this bit
    numbers = (text & (0x0F * _EACH_BYTE)) + 9 * letter
    numbers = (numbers * 2**4 + _shift_right(numbers, 8)) & 0x00FF00FF00FF00FF
    numbers = (numbers * 2**8 + _shift_right(numbers, 16)) & 0x0000FFFF0000FFFF
    numbers = (numbers * 2**16 + _shift_right(numbers, 32)) & 0xFFFFFFFF
    length = tf.cast(tf.strings.length(digits), tf.int64)
    return tf.where(length > 0, tf.bitwise.right_shift(numbers, 4 * (8 - length)), -1)


def _shift_right(numbers: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(numbers, tf.constant(bits, tf.int64))


def _not_empty(features: Any, labels: tf.Tensor) -> tf.Tensor:
    return tf.size(labels) > 0
