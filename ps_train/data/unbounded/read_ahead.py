"""Rows that a worker has read ahead, and the batches that are cut from them.

    ahead = ReadAhead(source, batch_size=64, max_wait_secs=5, patience_secs=120)
    ahead.follow({0: 17, 3: 4000})          # the partitions to read, each with the offset of its next row
    ahead.cut(3)                            # Cut(begin=4000, end=4064, rows=[...]), or None: too few rows yet
    ahead.close()

One thread reads all partitions of a worker, and asks for their number and their ends.  An error of the source is raised
by the calls of the other thread.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ps_train.base.console import human_secs
from ps_train.base.errors import DataError, UnreachableError, one_line
from ps_train.data.unbounded.row_gate import NO_STAMP, OPEN, RowGate
from ps_train.data.unbounded.source import Row, UnboundedSource

log = logging.getLogger(__name__)

_ASK_SECS = 2.0
"""Seconds between two questions for the number of partitions and their ends."""

_PAUSE_SECS = 0.02
"""Seconds between two rounds of reading, if no partition had rows."""

_TELL_SECS = 30.0
"""Seconds between two lines about missing rows."""

_BATCHES_AHEAD = 4
_LEAST_ROWS, _MOST_BYTES = 256, 64 << 20
"""Rows to read at once even for small batches; bytes of rows of one partition after which no more are read ahead."""


class Cut(NamedTuple):
    """Successive rows of a partition for one batch.

    Attributes:
      begin: offset at which they begin.
      end: offset after them.
      rows: the rows that are trained on; they may be none.
      stamps: what the gate knows all rows by.
    """

    begin: int
    end: int
    rows: list[Row]
    stamps: list[float]


class _Read(NamedTuple):
    """A row that is read.

    Attributes:
      arrival: when it arrived, in seconds of a monotonic clock.
      stamp: what the gate knows it by.
    """

    row: Row
    arrival: float
    stamp: float


class _Partition:
    """The rows of one partition that are read but not cut: from offset `head` up to offset `tail`.

    Attributes:
      empty_since: time of the first reading that found nothing after the last row; None if there are rows to come.
    """

    def __init__(self, offset: int) -> None:
        self.head = self.tail = offset
        self.rows: deque[_Read] = deque()
        self.bytes = 0
        self.empty_since: float | None = None

    def add(self, read: _Read) -> None:
        self.rows.append(read)
        self.tail = read.row.after
        self.bytes += len(read.row.value or b"")

    def cut(self, most: int, end: float, before: float, gate: RowGate) -> Cut | None:
        """Cuts a batch of `most` rows; of fewer, if the partition ends or stops, or a row arrived before a time.

        Args:
          most: number of rows that are trained on.
          end: offset at which the partition ends.
          before: time of arrival.
          gate: stops the partition.
        """
        count, available, is_last, stops = 0, 0, False, False
        for read in self.rows:
            is_last, stops = read.row.after > end, gate.is_shut(read.stamp)
            if is_last or stops or count == most:
                break
            available += 1
            count += read.row.value is not None
        if available:
            is_last |= self.rows[available - 1].row.after == end
        is_short = available and (stops or count == most or self.rows[0].arrival <= before)
        if not is_last and not is_short:
            return None
        reads = [self.rows.popleft() for _ in range(available)]
        rows = [read.row for read in reads]
        begin, self.head = self.head, int(end) if is_last else rows[-1].after
        self.bytes -= sum(len(row.value or b"") for row in rows)
        used = [row for row in rows if row.value is not None]
        return Cut(begin, self.head, used, [read.stamp for read in reads]) if begin < self.head else None


class ReadAhead:
    """The rows that one worker reads ahead.

    Args:
      batch_size: most rows in a batch.
      max_wait_secs: seconds that a row waits for others before a smaller batch is cut.
      patience_secs: seconds that the source may be unreachable.
      clock: returns seconds of a monotonic clock.
      gate: says which rows may be in a batch.

    Attributes:
      count: number of partitions; 0 before it is known.
      ends: offsets at which partitions end, as far as they are known.
      cursors: offset of the first unused row of each partition of this worker, set by its client.
      lags: how much was left to read of each of them, and how much this worker has read of it so far, in the source's
        unit.
    """

    def __init__(
        self,
        source: UnboundedSource,
        batch_size: int,
        max_wait_secs: float,
        patience_secs: float,
        clock: Callable[[], float] = time.monotonic,
        gate: RowGate = OPEN,
    ) -> None:
        self.count = 0
        self.ends: dict[int, int] = {}
        self.cursors: Mapping[int, int] = {}
        self.lags: Mapping[int, tuple[float, float]] = {}
        self._measured: dict[int, tuple[int, float]] = {}
        self._source, self._batch_size, self._clock = source, batch_size, clock
        self._gate = gate
        self._max_wait_secs, self._patience_secs = max_wait_secs, patience_secs
        self._lock = threading.Lock()
        self._calls = threading.Lock()  # only one thread calls the source
        self._followed: dict[int, _Partition] = {}
        self._left: set[int] = set()
        self._error: BaseException | None = None
        self._reached = self._told = self._arrived = clock()
        self._asked = -math.inf
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, offsets: Mapping[int, int]) -> None:
        """Reads these partitions, each from an offset on, and no others."""
        with self._lock:
            left = [partition for partition in self._followed if partition not in offsets]
            for partition in left:
                del self._followed[partition]
            self._left.update(left)  # released by the other thread: a call may wait for the source
            for partition, offset in offsets.items():
                known = self._followed.get(partition)
                if known is None or known.head != offset:
                    self._followed[partition] = _Partition(offset)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="read_ahead")
            self._thread.start()

    def head(self, partition: int) -> int | None:
        """Returns the offset at which the next batch begins; None if the partition is not followed."""
        with self._lock:
            return self._followed[partition].head if partition in self._followed else None

    def cut(self, partition: int, end: float = math.inf) -> Cut | None:
        """Cuts the next batch of a partition; None if it has too few rows yet.

        Args:
          partition: its number.
          end: an offset that the batch must not go beyond.
        """
        self.check()
        with self._lock:
            known = self._followed.get(partition)
            end = min(end, self.ends.get(partition, math.inf))
            if known is None:
                return None
            before = self._clock() - self._max_wait_secs
            return known.cut(self._batch_size, end, before, self._gate)

    def has_rows(self, partition: int) -> bool:
        """Returns True if a batch of the partition could be cut now or soon."""
        self.check()
        with self._lock:
            known = self._followed.get(partition)
            return known is not None and bool(known.rows) and not self._gate.is_shut(known.rows[0].stamp)

    def waiting(self, partition: int) -> tuple[float | None, float]:
        """Returns what waits at the offset at which the next batch begins.

        Returns:
          The stamp of the row there, None if it is not there, or has none; and for how many seconds the partition has
          been read to its end, 0 if there are rows.
        """
        with self._lock:
            known = self._followed.get(partition)
            stamp = known.rows[0].stamp if known is not None and known.rows else NO_STAMP
            since = None if known is None else known.empty_since
            return None if stamp == NO_STAMP else stamp, 0.0 if since is None else self._clock() - since

    def first_offset(self, partition: int, is_new: bool) -> int | None:
        """Returns the offset at which the run begins to read a partition; None if it cannot be asked for now."""
        self.check()
        try:
            with self._calls:
                return self._source.first_offset(partition, is_new)
        except OSError:
            return None

    def check(self) -> None:
        """Raises the error of the source, or of its absence."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends reading."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(5)
        self._source.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._release_left()
                self._ask()
                found = self._read_all()
                self._reached = self._clock()
            except OSError as error:
                found = False
                self._forget_ends()
                if self._clock() - self._reached > self._patience_secs:
                    self._error = UnreachableError(
                        f"{self._source.name} could not be reached for {human_secs(self._patience_secs)} "
                        f"(recovery_timeout_secs): {one_line(error)}."
                    )
                    return
                self._tell(f"{self._source.name} cannot be reached ({one_line(error)}); it is waited for")
            except BaseException as error:
                self._error = error
                return
            if not found:
                self._closed.wait(_PAUSE_SECS)

    def _release_left(self) -> None:
        """Frees what was needed to read partitions that are not followed any longer."""
        with self._lock:
            left, self._left = self._left - self._followed.keys(), set()
        for partition in left:
            with self._calls:
                self._source.release(partition)

    def _ask(self) -> None:
        """Asks for the number of partitions and their ends, now and then."""
        if self._clock() - self._asked < _ASK_SECS:
            return
        with self._calls:
            count = self._source.partitions()
        if count > self._source.most_partitions:
            raise DataError(
                f"{self._source.name} has {count} partitions, but a source may have {self._source.most_partitions}: "
                "set most_partitions, in another --model_dir."
            )
        for partition in range(count):
            if partition not in self.ends:
                with self._calls:
                    end = self._source.end_offset(partition)
                if end is not None:
                    self.ends[partition] = end
        self._measure(self.cursors)
        self.count, self._asked = max(count, self.count), self._clock()

    def _measure(self, cursors: Mapping[int, int]) -> None:
        """Asks how much is left to read; what was read since the last time is the difference at the same moment."""
        lags = {}
        for partition, cursor in cursors.items():
            before, used = self._measured.get(partition, (cursor, 0.0))
            with self._calls:
                left, left_before = (self._source.lag(partition, offset) for offset in (cursor, before))
            if left is not None and left_before is not None:
                used += max(0.0, left_before - left)
                self._measured[partition] = (cursor, used)
                lags[partition] = (left, used)
        self.lags = lags

    def _read_all(self) -> bool:
        """Reads some rows of each followed partition; returns True if there were any."""
        found, most = False, max(_LEAST_ROWS, _BATCHES_AHEAD * self._batch_size)
        with self._lock:
            followed = list(self._followed.items())
        is_full = False
        for number, partition in followed:
            if len(partition.rows) >= most or partition.bytes >= _MOST_BYTES:
                is_full = True
                continue
            with self._calls:
                rows = self._source.read(number, partition.tail, most)
                is_end = not rows and self._gate.asks_for_ends and not self._source.lag(number, partition.tail)
            now = self._clock()
            read = [self._stamped(number, row, now) for row in rows]
            with self._lock:
                for one in read:
                    partition.add(one)
                if not is_end:
                    partition.empty_since = None
                elif partition.empty_since is None and not partition.rows:
                    partition.empty_since = now
            found |= bool(rows)
        if found or is_full:
            self._arrived = self._told = self._clock()
        elif followed:
            numbers = ", ".join(str(number) for number, _ in followed[:10]) + (", ..." if len(followed) > 10 else "")
            waited = self._clock() - self._arrived
            self._tell(
                f"{self._source.name} has had no new rows for {waited:.0f}s in the partitions {numbers}; waiting"
            )
        return found

    def _stamped(self, partition: int, row: Row, now: float) -> _Read:
        stamp = NO_STAMP if row.value is None else self._gate.stamp(partition, row)
        return _Read(row._replace(value=None), now, NO_STAMP) if stamp is None else _Read(row, now, stamp)

    def _forget_ends(self) -> None:
        """Forgets that partitions were read to their ends: the source cannot be reached."""
        with self._lock:
            for partition in self._followed.values():
                partition.empty_since = None

    def _tell(self, line: str) -> None:
        if self._clock() - self._told >= _TELL_SECS:
            self._told = self._clock()
            log.info("%s", line)
