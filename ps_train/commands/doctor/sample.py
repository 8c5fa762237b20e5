"""A sample of a job: its own model and flags for a few seconds on this machine, with few tasks.

    with Children() as children:
        sample = take_sample(job, given, (1, 2), children, os.environ)
        sample.pushes_per_sec, sample.worker_cpu, sample.ps_cpu

The job is a child process in a directory that is removed.  CPU times are those that /proc shows for each task.
"""

from __future__ import annotations

import dataclasses
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

from ps_train.base.console import ERROR_BEGINS, PROGRESS_BEGINS, step_of
from ps_train.base.errors import PsTrainError
from ps_train.commands.doctor.owned_processes import Children, children_of, cpu_secs_of
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.flags import as_arguments
from ps_train.config.job import Job

_START_SECS, _WARM_SECS, _SAMPLE_SECS, _MOST_SECS = 120.0, 1.5, 4.0, 20.0
_LEAST_STEPS = 20
_NOT_PASSED_ON = (
    *HOST_LISTS,
    *("cluster_file", "job_name", "task_index", "num_ps", "ps_on_workers", "num_workers", "min_workers", "max_workers"),
    *("backup_workers", "max_restarts", "inject_fault", "model_dir", "export_dir", "export", "early_stop"),
    *("save_steps", "save_secs", "ignore_checkpoints", "max_steps", "epochs", "log_secs", "verbose"),
    *("eval_every_secs", "startup_timeout_secs", "scale_learning_rate"),
)
"""Flags of the job that the sample has otherwise, or not at all."""


class SampleError(PsTrainError):
    """Signals that no sample could be taken; the text says why."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """The rate of a small job and its costs.

    Attributes:
      workers, num_ps: its tasks.
      pushes_per_sec: of all workers together.
      worker_cpu: CPU seconds of a worker for one push; with `--ps_on_workers` those of the ps too.
      ps_cpu: CPU seconds of all ps for one push, in processes of their own.
    """

    workers: int
    num_ps: int
    pushes_per_sec: float
    worker_cpu: float
    ps_cpu: float


def sample_arguments(job: Job, given: Mapping[str, Any], num_ps: int, num_workers: int, directory: str) -> list[str]:
    """Returns the flags of the sample: those of the job, with few tasks and without an end or checkpoints."""
    kept = {name: value for name, value in given.items() if name not in _NOT_PASSED_ON}
    kept |= {"batch_size": job.min_batch_size} if "batch_size" in kept else {}
    own = ["--save_secs=1000000", "--max_steps=10000000", "--log_secs=0.25", f"--startup_timeout_secs={_START_SECS:g}"]
    num_ps = 0 if job.ps_on_workers else num_ps
    return [*as_arguments(kept), *own, f"--num_ps={num_ps}", f"--num_workers={num_workers}", f"--model_dir={directory}"]


def take_sample(
    job: Job, given: Mapping[str, Any], tasks: tuple[int, int], children: Children, environ: Mapping[str, str]
) -> Sample:
    """Runs the job with few tasks for some seconds.

    Args:
      job: the job.
      given: the flags of the user.
      tasks: number of ps and of workers.
      children: owns the processes; they are ended at the end.
      environ: the environment of the job.

    Raises:
      SampleError: the job ended, or made no steps in time.
    """
    num_ps, num_workers = tasks
    arguments = ["ps_train", *sample_arguments(job, given, num_ps, num_workers, children.directory())]
    process = children.start(arguments, {**environ, **_threads_of(job, num_workers, environ)})
    try:
        return _watch(process, job, num_ps, num_workers)
    finally:
        children.end()


def _threads_of(job: Job, num_workers: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment with which few workers have as many threads as the job's workers on one machine."""
    name, real = "TF_NUM_INTRAOP_THREADS", job.num_workers or 2
    if job.ps_hosts or real <= num_workers or name in environ:
        return {}
    return {name: str(max(1, len(os.sched_getaffinity(0)) // real))}


def _watch(process: subprocess.Popen[str], job: Job, num_ps: int, num_workers: int) -> Sample:
    """Reads the progress of the job until it is long enough; returns the sample."""
    lines: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    deadline = time.monotonic() + _START_SECS
    started: float | None = None
    begin: tuple[float, int, dict[str, float]] | None = None
    last_error = "it made no steps"
    while True:
        try:
            item = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise SampleError(f"{last_error} within {_START_SECS:g}s") from None
        if item is None:
            raise SampleError(last_error)
        now, text = item
        last_error = text.removeprefix(ERROR_BEGINS) if text.startswith(ERROR_BEGINS) else last_error
        if not text.startswith(PROGRESS_BEGINS):
            continue
        started = started or now
        if begin is None and now - started >= _WARM_SECS:
            begin = now, step_of(text), _cpu_by_kind(process.pid)
            deadline = now + _MOST_SECS + _START_SECS
        elif begin is not None and _is_enough(now - begin[0], step_of(text) - begin[1]):
            pushes = (step_of(text) - begin[1]) * (num_workers if job.update == "sync" else 1)
            cpu = {kind: secs - begin[2][kind] for kind, secs in _cpu_by_kind(process.pid).items()}
            return Sample(num_workers, num_ps, pushes / (now - begin[0]), cpu["worker"] / pushes, cpu["ps"] / pushes)


def _is_enough(secs: float, steps: int) -> bool:
    return steps > 0 and (secs >= _MOST_SECS or (secs >= _SAMPLE_SECS and steps >= _LEAST_STEPS))


def _cpu_by_kind(launcher: int) -> dict[str, float]:
    found = {"ps": 0.0, "worker": 0.0}
    for pid, name in children_of(launcher).items():
        kind = name.partition(":")[0]
        if kind in found:
            found[kind] += cpu_secs_of(pid)
    return found


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[tuple[float, str] | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put((time.monotonic(), line.rstrip("\n")))
    lines.put(None)
