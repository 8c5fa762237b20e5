"""The devices among which one worker divides its batches: its towers.

    towers = find_towers(job)                   # --towers=2: ("/device:GPU:0", "/device:GPU:1")
    server = start_server(address, job, towers.cpus)

A worker without a GPU has logical CPU devices, which compute no faster than one.  They are for tests.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging

import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.data.example_rows import count_of, slice_rows
from ps_train.data.pipeline import Batches

log = logging.getLogger(__name__)


def split_batch(batches: Batches, count: int) -> list[Batches]:
    """Returns the parts of a batch in order; their sizes differ by one example at most, and the first is the largest.

    Args:
      batches: the batch.
      count: number of parts; 1 returns the batch itself.
    """
    if count == 1:
        return [batches]
    rows = count_of(batches.labels)
    weight = tf.math.divide_no_nan(batches.examples, tf.cast(rows, tf.float32))
    edges = [(rows * number + count - 1) // count for number in range(count + 1)]
    parts = []
    for begin, end in itertools.pairwise(edges):
        first = tf.minimum(begin, tf.maximum(rows - 1, 0))
        last = tf.maximum(end, first + 1)
        features, labels = slice_rows((batches.features, batches.labels), first, last)
        examples = tf.cast(end - begin, tf.float32) * weight
        parts.append(dataclasses.replace(batches, features=features, labels=labels, examples=examples))
    return parts


_HOME = "/device:CPU:0"


@dataclasses.dataclass(frozen=True)
class Towers:
    """The towers of a worker.

    Attributes:
      devices: the device of each tower; "" stands for the only device, which TensorFlow chooses.
      flag: the flag with its source, for error texts.
    """

    devices: tuple[str, ...] = ("",)
    flag: str = "towers=1"

    @property
    def home(self) -> str:
        """The device of everything that a worker does once for all towers; "" with a single tower."""
        return _HOME if len(self.devices) > 1 else ""

    @property
    def cpus(self) -> int:
        """The number of CPU devices that the worker's server has."""
        return len(self.devices) if self.devices[-1].startswith("/device:CPU:") else 1


ONE_TOWER = Towers()


def find_towers(job: Job) -> Towers:
    """Returns the towers of this process, a worker.

    Raises:
      ConfigError: the machine has fewer GPUs than towers.
    """
    if job.towers == "1":
        return ONE_TOWER
    gpus, flag = _count_gpus(job), described(job, "towers")
    if job.towers == "all" and not gpus:
        log.warning("%s has no effect: this worker has no GPU, so one device computes", flag)
    count = max(gpus, 1) if job.towers == "all" else int(job.towers)
    if 0 < gpus < count:
        raise ConfigError(
            f"{flag} is more than the {gpus} GPUs of this worker ({', '.join(_devices('GPU', gpus))}): "
            f"use at most {gpus}, or all."
        )
    if count == 1:
        return ONE_TOWER
    devices = _devices("GPU" if gpus else "CPU", count)
    log.info("%s: each batch is divided among %s", flag, ", ".join(devices))
    return Towers(devices, flag)


def _count_gpus(job: Job) -> int:
    found = len(tf.config.list_physical_devices("GPU"))
    return found if job.gpus < 0 else min(found, job.gpus)


def _devices(kind: str, count: int) -> tuple[str, ...]:
    return tuple(f"/device:{kind}:{number}" for number in range(count))
