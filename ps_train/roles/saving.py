"""How a job saves: from copies on the ps while training goes on, or, where these would be too large, under a hold."""

from __future__ import annotations

import logging

from ps_train.checkpoint import Checkpoints
from ps_train.config import Job
from ps_train.graph.shadow import Shadows, bytes_by_ps
from ps_train.graph.step import Step
from ps_train.snapshots import Snapshots
from ps_train.updates.hold import Hold

log = logging.getLogger(__name__)


def saving(job: Job, step: Step, directory: str, device: str) -> tuple[Checkpoints, Snapshots]:
    """Adds to the step's graph, which must be the default and not final, what saves and restores.

    Args:
      device: the chief's.
    """
    stored = [one for one in step.stored if not one.follower]
    shadows = Shadows(stored) if job.async_save and _is_small(job, bytes_by_ps(stored)) else None
    copies = shadows.stored if shadows else ()
    checkpoints = Checkpoints(directory, job.keep_checkpoints, step.stored, device, copies)
    return checkpoints, Snapshots(checkpoints, Hold(step.ops.marks, step.ops.gate, not step.lockstep), shadows)


def _is_small(job: Job, sizes: dict[int, int]) -> bool:
    largest = max(sizes, key=sizes.__getitem__)
    mebibytes = sizes[largest] / (1 << 20)
    if mebibytes <= job.snapshot_mb:
        return True
    log.info(
        "ps:%d holds %.0f MiB, more than snapshot_mb=%d: there is no copy made of it, and pushes are held while a "
        "checkpoint is written",
        largest,
        mebibytes,
        job.snapshot_mb,
    )
    return False
