"""Sources that grow in memory, and a model of their numbers whose values say how often each was used."""

from __future__ import annotations

import threading

import tensorflow as tf

from ps_train.data import Row, UnboundedSource
from tests.support.data.recording import Recording


class Memory(UnboundedSource):
    """Partitions of numbers in the memory of this process.

    Attributes:
      rows: the rows of each partition, to which a test adds some.
      ends: the offsets at which partitions end.
      away: an error that all calls raise; None for none.
      time_of: returns the event time of a number, ms since 1970.
    """

    most_partitions = 8

    def __init__(self, partitions: int = 1, first: str = "earliest") -> None:
        super().__init__("memory", parse)
        self.rows: list[list[Row]] = [[] for _ in range(partitions)]
        self.first, self.ends, self.away = first, {}, None
        self.time_of = lambda number: 0
        self.lock = threading.Lock()

    def add(self, partition: int, *numbers: int) -> None:
        with self.lock:
            begin = self.rows[partition][-1].after if self.rows[partition] else 0
            self.rows[partition] += [Row(b"%d" % number, begin + index) for index, number in enumerate(numbers)]

    def partitions(self):
        if self.away is not None:
            raise self.away
        return len(self.rows)

    def read(self, partition, offset, n):
        if self.away is not None:
            raise self.away
        with self.lock:
            return [row for row in self.rows[partition] if row.offset >= offset][:n]

    def event_time(self, row):
        return self.time_of(int(row.value))

    def first_offset(self, partition, is_new):
        if self.first == "earliest" or is_new or not self.rows[partition]:
            return 0
        return self.rows[partition][-1].after

    def lag(self, partition, offset):
        with self.lock:
            return float(sum(row.offset >= offset for row in self.rows[partition]))

    def end_offset(self, partition):
        return self.ends.get(partition)


def parse(values):
    numbers = tf.strings.to_number(values, tf.int64)
    return numbers, tf.zeros_like(numbers, tf.float32)


class RecordingRows(Recording):
    """The numbers of a source, each below `count`."""

    def __init__(self, source: UnboundedSource, count: int, ones: bool = False) -> None:
        super().__init__(count, ones)
        self.source = source

    def data(self, split, data_dir):
        return self.source if split == "train" else None
