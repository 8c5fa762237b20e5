"""Data without an end: partitions that grow while they are read.

    class Numbers(UnboundedSource):
        def partitions(self):
            return 1

        def read(self, partition, offset, n):
            return [Row(b"%d" % number, number) for number in range(offset, offset + n)]

    def data(self, split, data_dir):
        return Numbers("numbers", parse)

A partition is a sequence of rows with ascending offsets.  One worker reads a partition at a time, and the checkpoint
has the offset of the next row of each partition.  `Kafka` and `GrowingFiles` are such sources.

A source knows nothing about workers, batches or checkpoints.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ps_train.base.errors import DataError
from ps_train.data.bad_records import BadRecords
from ps_train.data.stream import Stream, no_autograph

if TYPE_CHECKING:
    import tensorflow as tf

    from ps_train.data.data_shard import DataShard

FIELDS = ("value", "key", "timestamp")
"""The fields of a row that `parse` may get."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Row(NamedTuple):
    """A row of a partition.

    Attributes:
      value: its content; None for a row that is not trained on.  Such a row moves the offset only.
      offset: its place in the partition, at least 0.  Offsets may have gaps.
      next: the offset after it; -1 for `offset` + 1.
      key: its key; b"" for none.
      timestamp: its time, ms since 1970.
    """

    value: bytes | None
    offset: int
    next: int = -1
    key: bytes = b""
    timestamp: int = 0

    @property
    def after(self) -> int:
        """The offset after this row."""
        return self.offset + 1 if self.next < 0 else self.next


class UnboundedSource(Stream):
    """Data whose partitions grow while they are read.  Needs --sharding=dynamic.

    `partitions` and `read` are to be defined; the other methods have defaults.  The methods are called by one thread at
    a time.  An OSError of a method means that the source cannot be reached now: the call is repeated within
    --recovery_timeout_secs.  A DataError ends the job.

    Args:
      name: identifies the source in checkpoints; letters, digits, ".", "_" and "-".
      parse: takes values, string [n], and returns (features, labels): nested tensors [n, ...].  It may be called
        with n = 0.
      fields: the fields of rows that `parse` gets in a dict instead: "value" and "key", string [n], and "timestamp",
        int64 [n], ms since 1970.

    Attributes:
      most_partitions: number of partitions that the source may ever have; the checkpoint has room for so many.
    """

    most_partitions = 1024
    lag_unit = "rows"

    def __init__(self, name: str, parse: Callable[[Any], Any], fields: Sequence[str] = ()) -> None:
        from ps_train.data.record_parser import RecordParser  # it imports TensorFlow

        if not _NAME.fullmatch(name):
            raise DataError(f"{name!r} is not a name of a source: use letters, digits, '.', '_' and '-'.")
        if isinstance(fields, str) or not set(fields) <= set(FIELDS):
            raise DataError(f"fields={fields!r} is not valid: give a list of {', '.join(FIELDS)}.")
        self.name, self._fields = name, tuple(fields)
        own = parse if not fields else lambda columns: parse(self._columns(columns))
        self._parser = RecordParser(own, "row", lambda partition, _, __, offset: self.place(partition, offset))
        self.bad_records: BadRecords = self._parser.bad  # each is known by its partition, 0 and its offset

    @abc.abstractmethod
    def partitions(self) -> int:
        """Returns the present number of partitions, which never falls; they are numbered from 0."""

    @abc.abstractmethod
    def read(self, partition: int, offset: int, n: int) -> Sequence[Row]:
        """Returns up to about n rows of a partition from an offset on; none if there are none yet.

        It may wait some hundredths of a second for rows.

        Args:
          partition: its number.
          offset: of the first row, or of a gap before it.
          n: number of rows that are wanted.
        """

    def check(self) -> None:
        """Checks at the start of each task that the source can be read; raises DataError."""

    def first_offset(self, partition: int, is_new: bool) -> int:
        """Returns the offset at which a run begins to read a partition.

        Args:
          partition: its number.
          is_new: True if the partition was added while the run was training.
        """
        return 0

    def end_offset(self, partition: int) -> int | None:
        """Returns the offset at which a partition ends; None if it has no end, or the end is not known yet."""
        return None

    def lag(self, partition: int, offset: int) -> float | None:
        """Returns how much there is to read of a partition from an offset on, in `lag_unit`; None if it is not known.

        It is called every few seconds for the partitions that this process reads, and must return at once.
        """
        return None

    def event_time(self, row: Row) -> float:
        """Returns the event time of a row with a value, ms since 1970, for --save_event_secs: its timestamp.

        A source whose event times are in the values defines it, as `return json.loads(row.value)["time"]`.  A row for
        which it raises an exception is left out as malformed.
        """
        return row.timestamp

    def release(self, partition: int) -> None:
        """Frees what was needed to read a partition; another worker reads it now."""

    def close(self) -> None:
        """Frees everything."""

    def place(self, partition: int, offset: int) -> str:
        """Returns the place of a row in words."""
        return f"{self.name} partition {partition} offset {offset}"

    @property
    def width(self) -> int:
        """Number of strings that `examples` takes for each row; 0 for a vector of values."""
        return len(self._fields)

    def strings(self, row: Row) -> Any:
        """Returns what `examples` takes for a row."""
        given = {"value": row.value, "key": row.key, "timestamp": b"%d" % row.timestamp}
        return [given[name] for name in self._fields] if self._fields else row.value

    def examples(self, partition: tf.Tensor, offsets: tf.Tensor, strings: tf.Tensor) -> Any:
        """Returns (features, labels) of some rows; fewer if some cannot be parsed.

        Args:
          partition: int64 scalar.
          offsets: int64 [n].
          strings: string [n], or [n, width].
        """
        import tensorflow as tf

        from ps_train.data.record_parser import Records

        return self._parser(Records(partition, tf.zeros([], tf.int64), 1, offsets, strings))

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns an empty dataset of the elements' types; rows are read by their partitions only."""
        import tensorflow as tf

        shape = [0, self.width] if self._fields else [0]
        empty = tf.data.Dataset.from_tensors(
            (tf.zeros([], tf.int64), tf.zeros([0], tf.int64), tf.zeros(shape, tf.string))
        )
        return empty.map(no_autograph(self._loosely)).take(0)

    def _loosely(self, partition: tf.Tensor, offsets: tf.Tensor, strings: tf.Tensor) -> Any:
        """Returns the examples as if the number of rows were not known."""
        import tensorflow as tf

        unknown = tf.TensorShape([None, self.width] if self._fields else [None])
        offsets = tf.compat.v1.placeholder_with_default(offsets, [None])
        return self.examples(partition, offsets, tf.compat.v1.placeholder_with_default(strings, unknown))

    def _columns(self, strings: Any) -> dict[str, Any]:
        import tensorflow as tf

        found = {name: strings[:, number] for number, name in enumerate(self._fields)}
        if "timestamp" in found:
            found["timestamp"] = tf.strings.to_number(found["timestamp"], tf.int64)
        return found
