"""Parsing of records by a user's function, which may fail on some of them.

    parser = RecordParser(parse, "line", where)
    dataset.map(parser)         # of Records: (features, labels) of the ones that can be parsed

TensorFlow parses many records in one call, and its error tells neither which file nor which line is wrong.  A call that
fails is therefore repeated in Python, with ever fewer records, until the malformed ones are found.  They are counted,
left out, and refused above --max_bad_lines.  Calls that succeed cost no more than one function call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_train.base.errors import shown
from ps_train.data.bad_records import BadRecords
from ps_train.data.parse_faults import fault_in
from ps_train.data.stream import is_pipeline_error, no_autograph, own_text, pipeline_error, readable


class Records(NamedTuple):
    """Some records of one file: lines without their ends, or records of a TFRecord file.

    Attributes:
      file: int64 scalar, index of the file.
      first: int64 scalar: in a plain text file the byte offset of a line, else the number of a record, counted from 0.
      step: int64 scalar: 0 in a plain text file, else the difference between the numbers of successive records.
      index: int32 or int64 [n]: record i is the `index[i]`-th one after the first.
      records: what `parse` takes: string [n], or [n, k] for records of k fields, of which the first is shown in errors;
        or nested tensors [n, ...], which may be ragged.
    """

    file: Any
    first: Any
    step: Any
    index: Any
    records: Any


class RecordParser:
    """A function for `Dataset.map` that parses Records.

    Args:
      parse: takes `Records.records`, and returns nested tensors [n, ...].
      kind: "line" or "record", for messages.
      where: returns the place of a record in words, from `file`, `first`, `step` and `index`.

    Attributes:
      bad: counter of the malformed records.
    """

    def __init__(self, parse: Callable[[Any], Any], kind: str, where: Callable[[int, int, int, int], str]) -> None:
        self.bad = BadRecords(kind)
        self._parse, self._kind, self._where = no_autograph(parse), kind, where

    def __call__(self, some: Records) -> Any:
        """Returns what `parse` returns for the records that can be parsed."""
        given = tf.data.Dataset.from_tensors(some)
        parsed = given.map(no_autograph(lambda same: self._parse(same.records))).ignore_errors()
        careful = given.map(no_autograph(lambda same: self._parse(self._parsable(same))))
        # The second dataset is read only if the first one is empty, because its function failed.
        return parsed.concatenate(careful).take(1).get_single_element()

    def _parsable(self, some: Records) -> Any:
        def find(*parts: tf.Tensor) -> Any:
            return self._find(tf.nest.pack_sequence_as(some, parts, expand_composites=True))

        good = tf.py_function(find, tf.nest.flatten(some, expand_composites=True), tf.bool)
        return _rows(some.records, tf.where(tf.ensure_shape(good, [None]))[:, 0])

    def _find(self, some: Records) -> Any:
        """Returns which records can be parsed, bool [n]; all of them if the error is not one of the records."""
        file, first, step, index = (part.numpy() for part in some[:-1])
        records = some.records
        places = [(int(file), int(first), int(number)) for number in index]
        good = np.array([place not in self.bad for place in places], np.bool_)

        def search(rows: Any) -> None:
            """Marks the malformed ones of some rows."""
            if not len(rows) or (error := self._error(_rows(records, rows))) is None:
                return
            if len(rows) > 1:
                search(rows[: len(rows) // 2])
                search(rows[len(rows) // 2 :])
                return
            (row,) = rows
            good[row] = False
            place = places[row]

            def describe() -> str:
                where = self._where(place[0], place[1], int(step), place[2])
                return f"{where}: {_fault(error, _shown_part(records, row))}"

            if isinstance(error, _OtherBytes):
                raise pipeline_error(f"{describe()}; that is not UTF-8, so it is not skipped: convert the file.")
            if message := self.bad.add(place, describe):
                raise pipeline_error(message)

        try:
            search(np.flatnonzero(good))
        except _OtherError:
            good[:] = True
        return good

    def _error(self, records: Any) -> str | None:
        """Returns the text of the error of parsing some records, or None."""
        try:
            self._parse(records)
        except UnicodeDecodeError as error:
            return _OtherBytes(own_text(readable(error)))
        except tf.errors.OpError as error:
            if is_pipeline_error(error):
                raise _OtherError from None
            return own_text(error)
        except Exception:  # such as a function that uses a tensor of the graph, which has no value here
            raise _OtherError from None
        return None


class _OtherBytes(str):
    """The text of an error that quotes bytes that are not UTF-8: the file is in another encoding, or damaged."""

    __slots__ = ()


class _OtherError(Exception):
    """Parsing fails for a reason that is not a record's, or cannot be repeated in Python."""


_NODE = re.compile(r"\{\{function_node .*?\}\} ?| \[Op:.*", re.DOTALL)


def _rows(records: Any, rows: Any) -> Any:
    """Returns some of the records."""
    return tf.nest.map_structure(lambda part: tf.gather(part, rows), records)


def _shown_part(records: Any, row: int) -> bytes | None:
    """Returns the part of a record for an error; None for one of columns."""
    if not isinstance(records, tf.Tensor):
        return None
    found = records[row] if records.shape.rank == 1 else records[row][0]
    return bytes(found.numpy())


def _fault(text: str, record: bytes | None) -> str:
    if found := fault_in(text, record):
        return found
    what = "it" if record is None else shown(record)
    return f"{what} cannot be parsed ({_NODE.sub('', text).strip().partition(chr(10))[0]})"
