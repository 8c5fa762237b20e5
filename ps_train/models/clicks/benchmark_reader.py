"""How many lines a second the reader reads on one core: the whole way from the file to batches, shuffled.

    measure("data/criteo/train.txt")       # Measured(lines=..., secs=..., cpu_secs=...)

Beside the time on the clock stands the time of the processor, which is the same where others use the machine as well.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.criteo.files import ALL, SplitFiles
from ps_train.data.criteo.reader import Criteo
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.data.stream import data_error

_BATCH, _SHUFFLED, _MOST_SECS = 1024, 10_000, 10.0


@dataclasses.dataclass(frozen=True)
class ReadRate:
    """What was read after the first batch, and how long it took."""

    lines: int
    secs: float
    cpu_secs: float

    def text(self) -> str:
        return (
            f"{self.lines} lines in {self.secs:.2f} s: {self.lines / self.secs:.0f} lines/s; "
            f"{self.cpu_secs:.2f} s of one core: {self.lines / self.cpu_secs:.0f} lines/s/core"
        )


def measure(file: str, most_secs: float = _MOST_SECS) -> ReadRate:
    """Reads a file again and again for that long; raises DataError where it is not of the format."""
    chosen = SplitFiles((pathlib.Path(file),), ALL)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tf.Graph().as_default():
        batches = training_batches(Criteo(chosen), WHOLE, _BATCH, 0, _SHUFFLED)
        config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with v1.Session(config=config) as session:
            session.run(batches.initializer, batches.feeds(seed=1))
            fetches = (batches.features, batches.labels)
            try:
                session.run(fetches)  # fills the buffers
            except tf.errors.InvalidArgumentError as error:
                raise data_error(error) or error from None
            lines, start, cpu_start = 0, time.perf_counter(), time.process_time()
            while time.perf_counter() - start < most_secs:
                lines += len(session.run(fetches)[1])
            return ReadRate(lines, time.perf_counter() - start, time.process_time() - cpu_start)
