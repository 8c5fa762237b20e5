"""Checks of combinations of a job's values, where each value alone is allowed."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ps_train.base.errors import ConfigError
from ps_train.config.job_values import JobValues, described


def validate_combinations(job: JobValues) -> None:
    """Checks all combinations; raises ConfigError for the first invalid one."""
    named = functools.partial(described, job)
    if job.save_steps == 0 and job.save_secs == 0:
        raise ConfigError(f"{named('save_steps')} and {named('save_secs')} leave no time to save: set one of them.")
    if job.export != "final" and not job.export_dir:
        raise ConfigError(f"{named('export')} has no directory to write to: add --export_dir.")
    _check_update(job, named)
    _check_prefetch(job, named)
    _check_sharding(job, named)
    _check_elastic(job, named)
    if job.towers != "all" and int(job.towers) > job.batch_sizes.lower:
        raise ConfigError(
            f"{named('towers')} is more than {named('batch_size')}: each device needs an example, "
            f"use at most {job.batch_sizes.lower}."
        )
    if job.scale_learning_rate != "none" and not job.batch_sizes.is_range:
        raise ConfigError(
            f"{named('scale_learning_rate')} is for a batch_size of two bounds, but {named('batch_size')}: "
            "use --batch_size=64..512 for example, or leave scale_learning_rate out."
        )


def _check_update(job: JobValues, named: Callable[[str], str]) -> None:
    for name in ("max_staleness", "divide_lr_by_staleness", "delay_compensation"):
        if getattr(job, name) not in (None, False, 0.0) and job.update == "sync":
            raise ConfigError(f"{named(name)} is not for {named('update')}.")
    if "max_steps_ahead" in job.sources and job.update != "bounded":
        raise ConfigError(f"{named('max_steps_ahead')} is for update=bounded, but {named('update')}.")
    if job.backup_workers and job.update != "sync":
        raise ConfigError(f"{named('backup_workers')} is for update=sync, but {named('update')}.")
    if job.ps_recovery == "partial" and job.update != "async":
        raise ConfigError(
            f"{named('ps_recovery')} is for update=async, but {named('update')}: "
            "its guarantee holds only where all variables are of one step."
        )


def _check_prefetch(job: JobValues, named: Callable[[str], str]) -> None:
    if not job.prefetch_pulls:
        return
    fitting = {
        "update": job.update == "async",
        "steps_per_run": job.longest_call > 1,
        "delay_compensation": not job.delay_compensation,  # compensation keeps only one copy of the pulled values
    }
    for name in (name for name, fits in fitting.items() if not fits):
        raise ConfigError(f"{named('prefetch_pulls')} is not possible with {named(name)}.")


def _check_sharding(job: JobValues, named: Callable[[str], str]) -> None:
    if job.shard_examples is not None and not job.is_dynamic:
        raise ConfigError(f"{named('shard_examples')} is for sharding=dynamic, but {named('sharding')}.")
    if job.shard_examples is not None and job.shard_examples < job.batch_sizes.upper:
        raise ConfigError(
            f"{named('shard_examples')} is less than {named('batch_size')}: a batch is of one shard, use a larger one."
        )
    if job.is_dynamic and job.accumulate > 1:
        raise ConfigError(
            f"{named('accumulate')} is not possible with {named('sharding')}: a push is of one "
            "batch, use accumulate=1 and a larger batch_size."
        )


def _check_elastic(job: JobValues, named: Callable[[str], str]) -> None:
    if job.is_elastic and job.epochs and not job.is_dynamic:
        raise ConfigError(
            f"{named('max_workers')} is not possible with {named('epochs')} and {named('sharding')}: "
            "the workers in the host lists read all of an epoch between them, use --sharding=dynamic."
        )
