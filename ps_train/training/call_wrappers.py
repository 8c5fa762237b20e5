"""Wrappers of the functions that make a replica's calls: to time them, or to slow them down."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ps_train.config.fault_spec import slowdown_factor
from ps_train.config.job import Job
from ps_train.observe.profile import Profile
from ps_train.runtime.step_timeline import StepTimeline
from ps_train.training.context import TrainingContext
from ps_train.training.slowdown import Slowdown

_timeline = functools.cache(StepTimeline)
"""The timeline of a directory and a task: one for all sessions of a process."""


def make_profile(context: TrainingContext) -> Profile:
    """Makes the profile of a task; the tracer's newest step travels with the heartbeats."""
    others = [str(task) for task in context.cluster.replicas() if task != context.task]
    profile = Profile(
        context.job.profile,
        str(context.task),
        others,
        context.directory,
        lambda: [address.target for address in context.resolver.current().ps],
        context.console.line,
    )
    context.telemetry.step_time = lambda: profile.tracer.latest
    return profile


def call_wrappers(job: Job, task: str, tracer: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
    """Returns the wrappers for a task, the innermost first, which is that of the `tracer`."""
    wrappers: list[Callable[[Any], Any]] = [tracer]
    if job.timeline_dir:
        wrappers.append(_timeline(job.timeline_dir, task).timed)
    if (factor := slowdown_factor(job.inject_fault, task)) > 1:
        wrappers.append(Slowdown(factor).wrap)
    return wrappers
