"""Wrappers of the functions that make a replica's calls: to time them, or to slow them down."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ps_train.config.fault_spec import slowdown_factor
from ps_train.config.job import Job
from ps_train.hooks.step_timeline import StepTimeline
from ps_train.training.slowdown import Slowdown

_timeline = functools.cache(StepTimeline)
"""The timeline of a directory and a task: one for all sessions of a process."""


def call_wrappers(job: Job, task: str) -> list[Callable[[Any], Any]]:
    """Returns the wrappers for a task, the innermost first; most jobs have none."""
    wrappers: list[Callable[[Any], Any]] = [_timeline(job.timeline_dir, task).timed] if job.timeline_dir else []
    if (factor := slowdown_factor(job.inject_fault, task)) > 1:
        wrappers.append(Slowdown(factor).wrap)
    return wrappers
