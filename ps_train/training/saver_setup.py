"""Setup of the savers: from copies on the ps during training, or, if these are too large, while pushes are held."""

from __future__ import annotations

import logging

from ps_train.checkpoint.async_saver import AsyncSaver
from ps_train.checkpoint.files import Checkpoints
from ps_train.checkpoint.push_barrier import PushBarrier
from ps_train.checkpoint.save_listeners import NO_LISTENERS, SaveListeners
from ps_train.checkpoint.shadow_copies import ShadowCopies, bytes_by_ps
from ps_train.config.job import Job
from ps_train.graph.train_step import TrainStep

log = logging.getLogger(__name__)


def make_savers(
    job: Job, step: TrainStep, directory: str, device: str, listeners: SaveListeners = NO_LISTENERS
) -> tuple[Checkpoints, AsyncSaver]:
    """Adds the operations that save and restore to the graph of the step.

    Args:
      job: gives the limits of checkpoints: their number, and the size of a snapshot.
      step: the training graph; it must be the default graph and not finalized.
      directory: the model directory.
      device: the chief's device.
      listeners: the user's listeners.

    Returns:
      The checkpoints and their saver.
    """
    stored = [one for one in step.entries if not one.follower]
    shadows = ShadowCopies(stored) if _is_small(job, bytes_by_ps(stored)) else None
    copies = shadows.entries if shadows else ()
    checkpoints = Checkpoints(directory, job.keep_checkpoints, step.entries, device, copies, listeners)
    return checkpoints, AsyncSaver(
        checkpoints, PushBarrier(step.ops.push_counters, step.ops.step_gate, not step.lockstep), shadows
    )


def _is_small(job: Job, sizes: dict[int, int]) -> bool:
    largest = max(sizes, key=sizes.__getitem__)
    mebibytes = sizes[largest] / (1 << 20)
    if mebibytes <= job.max_snapshot_mib:
        return True
    log.info(
        "ps:%d holds %.0f MiB, more than max_snapshot_mib=%d: it is not copied, and pushes are held while a "
        "checkpoint is written",
        largest,
        mebibytes,
        job.max_snapshot_mib,
    )
    return False
