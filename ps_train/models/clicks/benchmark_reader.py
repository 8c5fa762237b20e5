"""A benchmark of the reader on one core, from the file to shuffled batches.

    measure("data/criteo/train.txt")       # ReadRate(lines=..., secs=..., cpu_secs=...)

The result has both wall time and CPU time.  Other processes on the machine do not affect the CPU time.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.criteo.files import SplitFiles, SplitPart
from ps_train.data.criteo.reader import Criteo
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.data.stream import data_error

_BATCH, _SHUFFLED, _MAX_SECS = 1024, 10_000, 10.0


@dataclasses.dataclass(frozen=True)
class ReadRate:
    """The rate of reading after the first batch.

    Attributes:
      lines: number of lines read.
      secs: wall time in seconds.
      cpu_secs: CPU time in seconds.
    """

    lines: int
    secs: float
    cpu_secs: float

    def text(self) -> str:
        """Returns the rate as one line of text."""
        return (
            f"{self.lines} lines in {self.secs:.2f} s: {self.lines / self.secs:.0f} lines/s; "
            f"{self.cpu_secs:.2f} s of one core: {self.lines / self.cpu_secs:.0f} lines/s/core"
        )


def measure(file: str, max_secs: float = _MAX_SECS) -> ReadRate:
    """Reads a file repeatedly and returns the rate.

    Args:
      file: path of the file.
      max_secs: duration in seconds.

    Raises:
      DataError: the file is not of the format.
    """
    split = SplitFiles((pathlib.Path(file),), SplitPart.ALL)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tf.Graph().as_default():
        batches = training_batches(Criteo(split), WHOLE, _BATCH, 0, _SHUFFLED)
        config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with v1.Session(config=config) as session:
            session.run(batches.initializer, batches.feeds(seed=1))
            fetches = (batches.features, batches.labels)
            try:
                session.run(fetches)  # fills the buffers before the measurement
            except tf.errors.InvalidArgumentError as error:
                raise data_error(error) or error from None
            lines, start, cpu_start = 0, time.perf_counter(), time.process_time()
            while time.perf_counter() - start < max_secs:
                lines += len(session.run(fetches)[1])
            return ReadRate(lines, time.perf_counter() - start, time.process_time() - cpu_start)
