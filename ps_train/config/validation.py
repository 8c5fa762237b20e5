"""Checks of combinations of a job's values, where each value alone is allowed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import scheme_of
from ps_train.config.fields import job_fields
from ps_train.config.job_values import JobValues, described
from ps_train.config.validators import AUTO_WEIGHTS


def validate_combinations(job: JobValues) -> None:
    """Checks all combinations; raises ConfigError for the first invalid one."""
    named = functools.partial(described, job)
    if job.save_steps == 0 and job.save_secs == 0 and job.save_event_secs == 0:
        raise ConfigError(f"{named('save_steps')} and {named('save_secs')} leave no time to save: set one of them.")
    if job.delta_every_secs and scheme_of(job.model_dir):
        raise ConfigError(
            f"{named('delta_every_secs')} needs a local directory, but {named('model_dir')}: use a local one, or "
            "python -m ps_train delta."
        )
    if job.export != "final" and not job.export_dir:
        raise ConfigError(f"{named('export')} has no directory to write to: add --export_dir.")
    for name in ("warm_start_map", "warm_start_slots", "warm_start_step", "warm_start_report", "dry_run"):
        if not job.warm_start and name in {field.name for field in _given(job)}:
            raise ConfigError(f"{named(name)} is for a warm start: add --warm_start=CHECKPOINT.")
    if job.export_rows != "float32":
        if not job.export_dir:
            raise ConfigError(f"{named('export_rows')} has no directory to write to: add --export_dir.")
        if job.export.endswith("split"):
            raise ConfigError(f"{named('export_rows')} is not possible with {named('export')}: leave one of them out.")
    _check_update(job, named)
    _check_prefetch(job, named)
    _check_sharding(job, named)
    _check_event_cuts(job, named)
    _check_elastic(job, named)
    _check_ps_on_workers(job, named)
    _check_racks(job, named)
    if job.towers != "all" and int(job.towers) > job.min_batch_size:
        raise ConfigError(
            f"{named('towers')} is more than {named('batch_size')}: each device needs an example, "
            f"use at most {job.min_batch_size}."
        )
    if job.scale_learning_rate != "none" and not job.batch_sizes.is_range:
        raise ConfigError(
            f"{named('scale_learning_rate')} is for a batch_size of two bounds, but {named('batch_size')}: "
            "use --batch_size=64..512 for example, or leave scale_learning_rate out."
        )


def _check_update(job: JobValues, named: Callable[[str], str]) -> None:
    for field in _given(job):
        modes = field.metadata["updates"]
        if modes and job.update not in modes:
            only = f"for update={modes[0]}, but" if len(modes) == 1 else "not for"
            raise ConfigError(f"{named(field.name)} is {only} {named('update')}.")
    if "max_steps_ahead" in job.sources and job.update != "bounded":
        raise ConfigError(f"{named('max_steps_ahead')} is for update=bounded, but {named('update')}.")
    if job.ps_recovery == "partial" and job.update != "async":
        raise ConfigError(
            f"{named('ps_recovery')} is for update=async, but {named('update')}: "
            "its guarantee holds only where all variables are of one step."
        )


def _check_event_cuts(job: JobValues, named: Callable[[str], str]) -> None:
    if not job.save_event_secs:
        return
    if not job.is_dynamic:
        raise ConfigError(
            f"{named('save_event_secs')} is for data without an end, which need sharding=dynamic, but "
            f"{named('sharding')}."
        )
    if job.save_event_secs < 0.001:
        raise ConfigError(f"{named('save_event_secs')} is not valid: event times are in ms, use at least 0.001.")
    if job.recovery_mode == "partial":
        raise ConfigError(
            f"{named('ps_recovery')} is not possible with {named('save_event_secs')}: a ps that is restored alone "
            "has other rows than the others, so no cut is exact; use ps_recovery=consistent."
        )


def _check_prefetch(job: JobValues, named: Callable[[str], str]) -> None:
    if not job.prefetch_pulls:
        return
    fitting = {"update": job.update == "async", "steps_per_run": job.longest_call > 1}
    for name in (name for name, fits in fitting.items() if not fits):
        raise ConfigError(f"{named('prefetch_pulls')} is not possible with {named(name)}.")


def _given(job: JobValues) -> list[dataclasses.Field[Any]]:
    """Returns the fields with another value than their default."""
    return [field for field in job_fields(type(job)) if getattr(job, field.name) != field.default]


def _check_sharding(job: JobValues, named: Callable[[str], str]) -> None:
    if job.shard_examples is not None and not job.is_dynamic:
        raise ConfigError(f"{named('shard_examples')} is for sharding=dynamic, but {named('sharding')}.")
    if job.shard_examples is not None and job.shard_examples < job.max_batch_size:
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


def _check_ps_on_workers(job: JobValues, named: Callable[[str], str]) -> None:
    if not job.ps_on_workers:
        return
    asked = named("num_ps" if job.num_ps == 0 else "ps_on_workers")
    for name in ("ps_hosts", "num_ps"):
        if getattr(job, name):
            raise ConfigError(f"{named(name)} is not possible with {asked}: the workers are the ps, leave one out.")
    if job.is_elastic:
        raise ConfigError(
            f"{named('max_workers')} is not possible with {asked}: each worker holds a share of the variables, so none "
            "may join or leave; leave one of them out."
        )
    if job.ps_weights == AUTO_WEIGHTS:
        raise ConfigError(
            f"{named('ps_weights')} is not possible with {asked}: the chief's own share would never leave its process, "
            "and seem the fastest; give numbers."
        )


_NOT_WITH_RACKS = {
    "ps_on_workers": "a rack's pushes would meet those of its own workers on their ps",
    "backup_workers": "a rack pushes the sum of all its workers",
    "max_workers": "the racks of all workers must be known at the start",
    "push_codec": "the sums of a rack would be rounded twice",
    "pull_codec": "values are passed on inside a rack as they were pulled",
    "compute_dtype": "values are passed on inside a rack as they were pulled",
}


def _check_racks(job: JobValues, named: Callable[[str], str]) -> None:
    if job.ps_placement == "near" and not job.rack_file:
        raise ConfigError(f"{named('ps_placement')} needs the racks of the ps: add --rack_file.")
    if not job.has_racks:
        return
    racks = named("rack_file" if job.rack_file else "rack")
    given = {field.name for field in _given(job)}
    for name, why in _NOT_WITH_RACKS.items():
        if name in given:
            raise ConfigError(f"{named(name)} is not possible with {racks}: {why}.")
    unfit = {
        "sharding": (job.is_dynamic, "the ps note the examples of each worker's own push, use sharding=static"),
        "batch_size": (job.batch_sizes.is_range, "the measured time of a rack's push is not that of a worker's"),
        "num_ps": (job.num_ps == 0, "the ps must be processes of their own"),
        "steps_per_run": (job.longest_call > 1, "a rack's workers meet in every step, use 1"),
        "inject_fault": (any(text.startswith("drop") for text in job.inject_fault), "a rack's push is one message"),
    }
    for name, (is_unfit, why) in unfit.items():
        if is_unfit:
            raise ConfigError(f"{named(name)} is not possible with {racks}: {why}.")
