"""The chain of gradient transforms that a job asks for.

for transform in transforms_of(job):
    gradients = transform(gradients, values)
"""

from __future__ import annotations

from ps_train.config.job import Job
from ps_train.updates.clip import by_global_norm, by_norm, by_value
from ps_train.updates.l2 import l2
from ps_train.updates.transform import Transform


def transforms_of(job: Job) -> list[Transform]:
    """Returns the transforms that the job asks for, in this order: L2, clipping by value, by norm, by global norm."""
    chosen: list[Transform] = []
    if job.l2:
        chosen.append(l2(job.l2))
    if job.clip_value is not None:
        chosen.append(by_value(job.clip_value))
    if job.clip_norm is not None:
        chosen.append(by_norm(job.clip_norm))
    if job.clip_global_norm is not None:
        chosen.append(by_global_norm(job.clip_global_norm))
    return chosen
