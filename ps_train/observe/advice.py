"""Advice of the rules of health: the flag or the action that helps, for a value over its limit.

Each function takes the status, the job, the task and the value, and returns the end of a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ps_train.config.job import Job
from ps_train.event_model import Costs, steps_per_sec_apart

Status = Mapping[str, Any]

_CORES_OF_A_PS = 8


def sync(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a large share of synchronisation, by its largest part."""
    parts = {"pull": 0.0, "push": 0.0, "wait": 0.0, "update": 0.0}
    for found in status["step_time"].values():
        parts = {name: secs + found[name] for name, secs in parts.items()}
    largest = max(parts, key=lambda name: parts[name])
    if largest == "wait":
        use = (
            "--backup_workers=1, --update=bounded"
            if job.update == "sync"
            else f"--max_steps_ahead={job.max_steps_ahead + 4}"
        )
        return f"most of it is waiting for other workers: use {use} or --update=async"
    if largest == "update":
        return "most of it is the update on the ps: add a ps (--num_ps), or use a simpler optimizer"
    more = ", --prefetch_pulls=1" if job.update == "async" and not job.prefetch_pulls else ""
    size = job.batch_sizes.lower
    following = "" if job.batch_sizes.is_range else f" (--batch_size={size}..{8 * size} finds one)"
    return f"a larger --batch_size{following}, --accumulate=4{more} lets each {largest} serve more examples"


def device(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for slow transfers to a device."""
    return "a smaller --batch_size or smaller dtypes of the features move fewer bytes to the device"


def conflicts(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a high rate of conflicting updates."""
    return "fewer workers, --accumulate=4, or --update=bounded makes fewer updates meet newer values"


def staleness(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for stale updates."""
    if job.update == "bounded":
        return "a smaller --max_steps_ahead keeps workers closer together"
    return "--update=bounded, or --sharding=dynamic and fewer workers, keeps workers closer together"


def input(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for workers that wait for input."""
    return "make data() cheaper, read with more threads (num_parallel_calls), or use files on a local disk"


def ps_cpu(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a ps whose cores are busy, with the gain of one more ps by the event model."""
    more = len(status["ps"]) + 1
    gain = gain_of_one_more_ps(status)
    about = f" would give about {gain:.1f}x, by the event model" if gain is not None else " shares its work"
    return f"one more ps{about}: --num_ps={more}, or {more} --ps_hosts"


def ps_network(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a ps whose network is full."""
    smaller = "--accumulate=4 makes"
    if job.pull_codec == job.push_codec == "none":
        smaller = "--pull_codec=bfloat16 and --push_codec=bfloat16, or --accumulate=4, make"
    return f"{_one_more_ps(status)} shares its traffic; {smaller} less of it"


def balance(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for an uneven plan."""
    return "fewer ps (--num_ps), or a model whose largest variable can be cut along its first dimension"


def ps_memory(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a ps that is nearly full."""
    return f"{_one_more_ps(status)}, or an optimizer with fewer slots"


def skipped(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for gradients that are not finite."""
    if job.scales_loss:
        return "the first overflows of float16 find the loss scale; if they go on, --compute_dtype=bfloat16"
    return "a smaller --learning_rate, or --clip_global_norm; check the data for NaN"


def dropped(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for gradients that came too late."""
    if job.update == "sync":
        return "fewer --backup_workers, or replace the slow worker: its work is lost"
    return "a larger --max_staleness, or replace the slow worker: its work is lost"


def unsaved(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for checkpoints that are far apart."""
    return f"a fault now would cost this much work: use a smaller --save_secs (now {job.save_secs:g})"


def holds(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for checkpoints that hold pushes for long."""
    return "save less often (--save_secs, --save_steps), or raise --max_snapshot_mib so that copies are written"


def slow_worker(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a worker that is slower than the others."""
    worker = next((worker for worker in status["workers"] if worker["task"] == task), None)
    where = worker["location"] if worker else task
    if job.update == "sync":
        return f"look at the machine of {where}; --backup_workers=1 goes on without the slowest"
    return f"look at the machine of {where}; --sharding=dynamic gives it less data"


def _one_more_ps(status: Status) -> str:
    return f"one more ps (--num_ps={len(status['ps']) + 1})"


def gain_of_one_more_ps(status: Status) -> float | None:
    """Returns the predicted speed with one more ps over the present one; None where too little is known."""
    rate, times, ps = status["steps_per_sec"], status["step_time"].values(), status["ps"]
    cpus = [found["cpu"] for found in ps]
    training = [worker for worker in status["workers"] if worker["state"] == "training"]
    if not rate or not times or not training or any(cpu is None for cpu in cpus):
        return None
    made = sum(worker["steps_per_sec"] or 0.0 for worker in training) or rate
    ps_cpu_secs = sum(cpus) / made
    own = [found["input"] + found["compute"] + found["other"] for found in times]
    costs = Costs(pause=sum(own) / len(own), latency=0.0, worker_cpu=0.0, ps_cpu=ps_cpu_secs)
    cores = round(ps[0].get("cores") or _CORES_OF_A_PS)
    now = steps_per_sec_apart(costs, len(training), len(ps), cores)
    return steps_per_sec_apart(costs, len(training), len(ps) + 1, cores) / now
