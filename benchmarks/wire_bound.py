"""The rate that a slow network, round trips, computing and the cores allow to a ps job, from what a run has used.

    used = Used(pulled=970e3, pushed=970e3, compute_secs=0.0006, cpu_secs=0.004)
    batches_per_sec(used, Wire(delay_secs=0.001, bytes_per_sec=125e6), workers=2, cores=2, ahead=False)

Pure.  One ps sends to all workers over one line; each worker has a line of its own.  Workers that hold the variables
themselves, and those of an all-reduce, send everything over their own lines.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Wire:
    """A line's delay in one direction, and its rate."""

    delay_secs: float
    bytes_per_sec: float


@dataclasses.dataclass(frozen=True)
class Used:
    """A worker's batch in numbers.

    Attributes:
      pulled, pushed: bytes that the ps has sent for it, 0 without a ps, and that the worker has.
      compute_secs: computing alone, on one core.
      cpu_secs: of all processes, the emulated wire's included.
    """

    pulled: float
    pushed: float
    compute_secs: float
    cpu_secs: float


def batches_per_sec(used: Used, wire: Wire, workers: int, cores: int, ahead: bool) -> float:
    """Returns the most batches a second of all workers together.

    Args:
      used: the costs of a batch.
      wire: the lines between the tasks.
      workers: how many share the ps's line and the cores.
      cores: of the machine that all tasks are on.
      ahead: whether a batch's values are pulled while the batch before is computed and pushed.
    """
    pull, push = used.pulled / wire.bytes_per_sec, used.pushed / wire.bytes_per_sec
    if ahead:
        turn = max(push, used.compute_secs, (pull + push + used.compute_secs + 2 * wire.delay_secs) / 2)
    else:
        turn = pull + push + used.compute_secs + 2 * wire.delay_secs
    return min(workers / turn, cores / used.cpu_secs, *([1 / pull] if pull else []))
