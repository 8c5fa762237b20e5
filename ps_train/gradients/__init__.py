"""Pure transforms of gradients, one a file; chained on the worker, before the push, the same under every update mode.

    for transform in transforms_of(job):
        gradients = transform(gradients, values)

A transform is a function of two dicts, variable name to gradient and to pulled value, both dense and whole, and gives
the new gradients.  It knows nothing of ps, plans or updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from ps_train.config import Job

Gradients = dict[str, tf.Tensor]
Transform = Callable[[Mapping[str, tf.Tensor], Mapping[str, tf.Tensor]], Gradients]


def transforms_of(job: Job) -> list[Transform]:
    """What the job asks for, in this order: L2, then clipping by value, by norm, by global norm."""
    from ps_train.gradients.clip import by_global_norm, by_norm, by_value
    from ps_train.gradients.l2 import l2

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
