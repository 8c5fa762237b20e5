"""Which values of a Job cannot be together.  What is wrong with a single value its own check says (`config.py`)."""

from __future__ import annotations

from ps_train.config import Job, described
from ps_train.errors import ConfigError


def check_conflicts(job: Job) -> None:
    """Raises ConfigError for the first that is found."""
    if job.save_steps == 0 and job.save_secs == 0:
        raise ConfigError("save_steps=0 and save_secs=0 leave no time to save: set at least one of them.")
    _check_update(job)
    _check_sharding(job)


def _check_update(job: Job) -> None:
    for name in ("max_staleness", "staleness_lr", "delay_compensation"):
        if getattr(job, name) not in (None, False, 0.0) and job.update == "sync":
            raise ConfigError(f"{described(job, name)} is not for {described(job, 'update')}.")
    if "staleness" in job.sources and job.update != "bounded":
        raise ConfigError(f"{described(job, 'staleness')} is for update=bounded, but {described(job, 'update')}.")
    if job.backup_workers and job.update != "sync":
        raise ConfigError(f"{described(job, 'backup_workers')} is for update=sync, but {described(job, 'update')}.")
    if job.ps_recovery == "partial" and job.update != "async":
        raise ConfigError(
            f"{described(job, 'ps_recovery')} is for update=async, but {described(job, 'update')}: "
            "its guarantee holds only where all variables are of one step."
        )


def _check_sharding(job: Job) -> None:
    if job.shard_examples is not None and not job.is_dynamic:
        raise ConfigError(
            f"{described(job, 'shard_examples')} is for sharding=dynamic, but {described(job, 'sharding')}."
        )
    if job.shard_examples is not None and job.shard_examples < job.batch_size:
        raise ConfigError(
            f"{described(job, 'shard_examples')} is less than {described(job, 'batch_size')}: a batch is of one shard, "
            "use a larger one."
        )
    if job.is_dynamic and job.accumulate > 1:
        raise ConfigError(
            f"{described(job, 'accumulate')} is not possible with {described(job, 'sharding')}: a push is of one "
            "batch, use accumulate=1 and a larger batch_size."
        )
