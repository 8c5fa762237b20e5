"""Advice of the rules of health: the flag or the action that helps, for a value over its limit.

Each function takes the status, the job, the task and the value, and returns the end of a sentence.  No advice proposes
what the job has already, or what cannot be set beside its other flags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ps_train.config.job import Job
from ps_train.config.refusals import is_possible

Status = Mapping[str, Any]

_CORES_OF_A_PS = 8


def sync(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a large share of synchronisation, by its largest part."""
    parts = {"pull": 0.0, "push": 0.0, "wait": 0.0, "update": 0.0}
    for found in status["step_time"].values():
        parts = {name: secs + found[name] for name, secs in parts.items()}
    largest = max(parts, key=lambda name: parts[name])
    if largest == "wait":
        if job.update == "sync":
            modes = [f"--update={mode}" for mode in ("bounded", "async") if _may_have_mode(job, mode)]
            use = [*_even_rounds(job), *_one_more_backup(status, job), *modes] or [
                "faster machines instead of the slow ones"
            ]
        elif job.update == "bounded":
            limits = job.steps_ahead_limits
            use = [f"--max_steps_ahead={limits.lower}..{limits.upper + 4}", "--update=async"]
        else:
            use = ["fewer workers"]
        return f"most of it is waiting for other workers: use {_either(use)}"
    if largest == "update":
        return (
            f"most of it is the update on the ps: {_one_more_ps(status, job)} shares it; a simpler optimizer makes less"
        )
    size = job.min_batch_size
    larger = f"{size}..{8 * size}"
    finds = not job.batch_sizes.is_range and is_possible(job, batch_size=larger)
    means = ["--local_steps=auto"] if not job.has_local_steps and is_possible(job, local_steps="auto") else []
    means += [f"a larger --batch_size{f' (--batch_size={larger} finds one)' if finds else ''}", *_accumulate(job)]
    means += ["--prefetch_pulls=1"] if job.update == "async" and not job.prefetch_pulls else []
    return f"{_either(means)} lets each {largest} serve more examples"


def device(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for slow transfers to a device."""
    return "a smaller --batch_size or smaller dtypes of the features move fewer bytes to the device"


def conflicts(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a high rate of conflicting updates."""
    means = ["fewer workers", *_accumulate(job), *_bounded(job)]
    return f"{_either(means)} makes fewer updates meet newer values"


def staleness(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for stale updates."""
    means = (
        ["a smaller --max_steps_ahead"]
        if job.update == "bounded" and job.steps_ahead_limits.upper > 0
        else _bounded(job)
    )
    means += ["--sharding=dynamic and fewer workers"] if _may_be_dynamic(status, job) else ["fewer workers"]
    return f"{_either(means)} keeps workers closer together"


def loss_rise(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a loss that rises under stale updates: they overshoot with a rate that suits fresh ones."""
    means = ["a smaller --learning_rate", *_bounded(job), "fewer workers"]
    return f"stale gradients overshoot with a large rate; {_either(means)} keeps the loss falling"


def input(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for workers that wait for input."""
    stream = status["stream"]
    if stream is None:
        return "make data() cheaper, read with more threads (num_parallel_calls), or use files on a local disk"
    if stream["growth"] is not None and stream["growth"] <= 1:
        return "the job reads its data as fast as they arrive, and waits for more: fewer workers would do"
    cheaper = "make data() cheaper, or read with more threads (num_parallel_calls)"
    return f"{cheaper}{_more_readers(status, ', or use ')}"


def ps_cpu(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a ps whose cores are busy, with the gain of one more ps."""
    more = len(status["ps"]) + 1
    gain = gain_of_one_more_ps(status)
    if job.ps_on_workers:
        return f"{_one_more_ps(status, job)} shares its work"
    about = f" would give about {gain:.1f}x" if gain is not None else " shares its work"
    return f"one more ps{about}: --num_ps={more}, or {more} --ps_hosts"


def ps_network(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a ps whose network is full."""
    names = [name for name in ("pull_codec", "push_codec") if getattr(job, name) == "none"]
    codecs = [f"--{name}=bfloat16" for name in names if is_possible(job, **{name: "bfloat16"})]
    means = [*([" and ".join(codecs)] if codecs else []), *_accumulate(job)] or ["a larger --batch_size"]
    return f"{_one_more_ps(status, job)} shares its traffic; {_either(means)} makes less of it"


def balance(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for an uneven plan."""
    fewer = "" if job.ps_on_workers else "fewer ps (--num_ps), or "
    return f"{fewer}a model whose largest variable can be cut along its first dimension"


def ps_memory(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a ps that is nearly full."""
    return f"{_one_more_ps(status, job)}, or an optimizer with fewer slots"


def skipped(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for gradients that are not finite."""
    if job.scales_loss:
        return "the first overflows of float16 find the loss scale; if they continue, --compute_dtype=bfloat16"
    means = ["a smaller --learning_rate"]
    means += ["--clip_global_norm" if job.clip_global_norm is None else "a smaller --clip_global_norm"]
    return f"{_either(means)}; check the data for NaN"


def dropped(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for gradients that came too late."""
    means = ["fewer --backup_workers"] if _backups(status, job) else []
    means += ["a larger --max_staleness"] if job.max_staleness is not None else []
    return f"{_either([*means, 'replace the slow worker'])}: its work is lost"


def unsaved(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for checkpoints that are far apart."""
    return f"a fault now would cost this much work: use a smaller --save_secs (now {job.save_secs:g})"


def holds(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for checkpoints that hold pushes for long."""
    return "save less often (--save_secs, --save_steps), or raise --max_snapshot_mib so that training need not wait"


def slow_worker(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a worker that is slower than the others."""
    hosts = {_host_of(worker) for worker in status["workers"]}
    if len(status["workers"]) > 1 and len(hosts) == 1:
        look = f"all workers share {hosts.pop()}, so it is not the machine: look at what {task} reads and computes"
        return f"{look}, or use fewer workers"
    worker = next((worker for worker in status["workers"] if worker["task"] == task), None)
    look = f"look at the machine of {worker['location'] if worker else task}"
    if backup := _one_more_backup(status, job):
        return f"{look}; {backup[0]} continues without the slowest"
    return f"{look}; --sharding=dynamic gives it less data" if _may_be_dynamic(status, job) else look


def _host_of(worker: Mapping[str, Any]) -> str:
    """Returns the host in a worker's location; its task where no process is known."""
    found = re.search(r" on (.+), pid \d+$", worker["location"])
    return found[1] if found else worker["task"]


def lag(status: Status, job: Job, task: str, value: float) -> str:
    """Advice for a job that reads more slowly than its data arrive."""
    more = _more_readers(status)
    return (
        f"the job falls behind its data: {_either([*([more] if more else []), 'a larger --batch_size'])} reads faster"
    )


def _more_readers(status: Status, before: str = "") -> str:
    """Returns the advice of more workers, after `before`; "" where each partition has one."""
    partitions = len(status["stream"]["partitions"])
    training = sum(worker["state"] == "training" for worker in status["workers"])
    return f"{before}more workers (up to {partitions}, one for each partition)" if training < partitions else ""


def _either(means: Sequence[str]) -> str:
    """Returns a choice in words: "a, b or c"."""
    return " or ".join(filter(None, [", ".join(means[:-1]), means[-1]]))


def _backups(status: Status, job: Job) -> int:
    """Returns the largest number of backup workers that the job may have now."""
    return job.backup_limits(max(1, len(status["workers"]))).upper


def _one_more_backup(status: Status, job: Job) -> list[str]:
    """Returns the flag that waits for one worker less; [] where it is not possible."""
    more = _backups(status, job) + 1
    return [f"--backup_workers={more}"] if is_possible(job, backup_workers=more) else []


def _even_rounds(job: Job) -> list[str]:
    """Returns the flag that lets slow workers make fewer steps of a round; [] where it is not possible."""
    is_open = job.has_local_steps and not job.round_secs and is_possible(job, round_secs=1.0)
    return ["--round_secs=1 (for a model without tables)"] if is_open else []


def _may_have_mode(job: Job, update: str) -> bool:
    return is_possible(job, update=update, backup_workers=0)


def _accumulate(job: Job) -> list[str]:
    """Returns the flag that pushes less often; [] where it is not possible."""
    return [] if job.is_dynamic else [f"--accumulate={max(4, 2 * job.accumulate)}"]


def _bounded(job: Job) -> list[str]:
    """Returns the flag that makes updates meet newer values; [] where it is set."""
    if job.prefetch_pulls:  # which is not possible with --update=bounded, and makes values older
        return ["--prefetch_pulls=0"]
    return ["--update=bounded"] if job.update != "bounded" and _may_have_mode(job, "bounded") else []


def _may_be_dynamic(status: Status, job: Job) -> bool:
    may = not job.is_dynamic and is_possible(job, sharding="dynamic")
    return may and status["stream"] is None  # each partition of a stream has its worker


def _one_more_ps(status: Status, job: Job) -> str:
    if job.ps_on_workers:
        return "one more worker, which is a ps too,"
    return f"one more ps (--num_ps={len(status['ps']) + 1})"


def gain_of_one_more_ps(status: Status) -> float | None:
    """Returns the predicted speed with one more ps over the present one; None where too little is known."""
    rate, times, ps = status["steps_per_sec"], status["step_time"].values(), status["ps"]
    cpus = [found["cpu"] for found in ps]
    training = [worker for worker in status["workers"] if worker["state"] == "training"]
    if not rate or not times or not training or any(cpu is None for cpu in cpus):
        return None
    made = sum(worker["steps_per_sec"] or 0.0 for worker in training) or rate
    ps_cpu_secs = max(1e-9, sum(cpus) / made)
    own_secs = sum(found["input"] + found["compute"] + found["other"] for found in times) / len(times)
    cores = round(ps[0].get("cores") or _CORES_OF_A_PS)

    def most_steps_per_sec(num_ps: int) -> float:
        """Returns the lesser of what the workers would make if none waited for another, and what the ps could."""
        return min(len(training) / (own_secs + ps_cpu_secs / num_ps), num_ps * cores / ps_cpu_secs)

    return most_steps_per_sec(len(ps) + 1) / most_steps_per_sec(len(ps))
