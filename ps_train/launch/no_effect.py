"""Flags that were given but have no effect in this process; only those of which that is certain.

for line in flags_without_effect(job, task):
    log.warning(line)                    # "max_restarts=3 (from the command line) has no effect: ..."
"""

from __future__ import annotations

from ps_train.config.fields import source_of
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.output_fields import parse_profile
from ps_train.config.task import Task


def flags_without_effect(job: Job, task: Task) -> list[str]:
    """Returns a line for each given flag that this process ignores.

    All processes of a job may share a flagfile, so flags for other tasks are not listed.
    """
    lines = []
    if task.job_name == "local" and task.task_index is not None:
        lines.append(
            f"task_index={task.task_index}{source_of(job.sources, 'task_index')} has no effect: without --job_name a "
            "whole cluster is started here; add --job_name, or leave --task_index out."
        )
    if task.job_name == "local" and job.health_port is not None and job.health_port >= 0:
        lines.append(f"{described(job, 'health_port')} has no effect: it is for tasks that are started on their own.")
    if task.job_name != "local":
        has_indices = any("=" in host for host in job.worker_hosts)
        numbers = () if job.cluster_from not in ("auto", "none", "tf_config") else ("num_ps", "num_workers")
        for name in ("max_restarts", *(name for name in numbers if name == "num_ps" or not has_indices)):
            if name in job.sources:
                lines.append(
                    f"{described(job, name)} has no effect on {task.job_name}: it is for a cluster that one command "
                    "starts on this machine."
                )
    if job.timeline_dir and "steps_per_run" in job.sources and job.steps_per_run not in ("auto", "1"):
        lines.append(f"{described(job, 'steps_per_run')} has no effect: with --timeline_dir each step is a call.")
    first = parse_profile(job.profile)
    if first is not None and first[0] >= job.max_steps:
        lines.append(f"{described(job, 'profile')} has no effect: the job ends at max_steps={job.max_steps}.")
    return lines
