"""Rules of health: each measures one thing, has a limit, and knows what to do about it.

    findings(status, job)  # in the order of RULES

A rule looks at the status that the page shows, so whatever warns can be seen there.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ps_train.base.errors import PsTrainError, with_page
from ps_train.config.job import Job
from ps_train.config.validators import SYNC_PARTS, SYNC_SHARE, parse_limits
from ps_train.observe.status import advice

Status = Mapping[str, Any]
Measured = tuple[str, float | None]
"""A task, "" for the job, and its value; None where it is not known."""

LOSS_RISE = "loss_rise"
"""Name of a rule."""

_ENOUGH_STEPS = 50
"""Steps before shares and rates are judged: the first ones are slow."""

_SMALL_BYTES, _SHORT_STEP_SECS = 1 << 20, 0.01
"""Bytes of all variables, and seconds of a step, below which most of a step is calls and not data."""


@dataclasses.dataclass(frozen=True)
class HealthRule:
    """A rule of health.

    Attributes:
      name: name of the limit in --health_limits.
      title: words for people.
      meaning: what is measured, and in which jobs, for the documents.
      unit: share, secs or ratio.
      limit: the largest value that is well.
      measure: returns the values of a status.
      advice: returns an action for a value over its limit.
      page: page of the documents, and its heading, that helps.
      is_exempt: returns True for a status in which nothing is wrong whatever the value, a share: the limit is 1 then.
    """

    name: str
    title: str
    meaning: str
    unit: str
    limit: float
    measure: Callable[[Status, Job], Iterable[Measured]]
    advice: Callable[[Status, Job, str, float], str]
    page: str
    is_exempt: Callable[[Status], bool] = lambda status: False

    def limit_of(self, status: Status) -> float:
        """Returns the limit for a job of this status."""
        return 1.0 if self.is_exempt(status) else self.limit


def findings(status: Status, job: Job, exempt: Collection[str] = ()) -> list[dict[str, Any]]:
    """Returns one finding for each rule, or for each task of a rule that warns, and one for each failing side work.

    Args:
      status: the status of the job.
      job: has `health_limits`, and the settings that advice names.
      exempt: names of rules that say nothing of the job.
    """
    limits = parse_limits(job.health_limits)
    found: list[dict[str, Any]] = []
    for rule in RULES:
        limit = limits.get(rule.name, rule.limit_of(status))
        is_judged = (status.get("step") or 0) >= _ENOUGH_STEPS and rule.name not in exempt
        values = list(rule.measure(status, job)) if is_judged else []
        over: list[Measured] = [(task, value) for task, value in values if value is not None and value > limit]
        known = [(task, value) for task, value in values if value is not None]
        worst: Measured = max(known, key=lambda measured: measured[1]) if known else ("", None)
        for task, value in over or [worst]:
            found.append(_finding(rule, limit, task, value, status, job))
    return found + [_of_side_work(name, one) for name, one in status.get("side_work", {}).items()]


def warnings(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns a line for each finding that warns."""
    return [f"health: {warning(each)}" for each in found if each["state"] == "warn"]


def warning(found: Mapping[str, Any]) -> str:
    """Returns what a finding says, with its advice and the page that helps."""
    return with_page(f"{found['text']}; {found['advice']}", found["page"])


def _finding(
    rule: HealthRule, limit: float, task: str, value: float | None, status: Status, job: Job
) -> dict[str, Any]:
    state = "unknown" if value is None else "warn" if value > limit else "ok"
    shown = "not known" if value is None else _shown(value, rule.unit)
    text = f"{task + ': ' if task else ''}{rule.title} {shown} (limit {_shown(limit, rule.unit)})"
    return {
        "rule": rule.name,
        "task": task,
        "title": rule.title,
        "value": value,
        "limit": limit,
        "unit": rule.unit,
        "state": state,
        "text": text,
        "advice": rule.advice(status, job, task, value) if state == "warn" and value is not None else "",
        "page": rule.page,
    }


def _of_side_work(name: str, failure: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the finding for work beside training that fails at present, from the first step on."""
    title = "work beside training fails"
    return {
        "rule": "side_work",
        "task": name,
        "title": title,
        "value": failure["secs"],
        "limit": 0.0,
        "unit": "secs",
        "state": "warn",
        "text": f"{name}: {title} for {_shown(failure['secs'], 'secs')}",
        "advice": failure["reason"],
        "page": PsTrainError.page,
    }


def _shown(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"
    if unit == "secs":
        return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
    return f"{value:.3g}x" if unit == "ratio" else f"{value:g}"


def _parts(*names: str) -> Callable[[Status, Job], Iterable[Measured]]:
    def measure(status: Status, job: Job) -> Iterable[Measured]:
        times = status["step_time"].values()
        shares = [sum(found[name] for name in names) / found["secs"] for found in times if found["secs"] > 0]
        yield "", statistics.median(shares) if shares else None

    return measure


def _is_small(status: Status) -> bool:
    """Returns True for a small model with short steps: most of such a step is calls, and no setting changes that."""
    secs = [found["secs"] for found in status["step_time"].values() if "secs" in found]
    size = sum(ps["variable_bytes"] for ps in status["ps"])
    return size < _SMALL_BYTES and bool(secs) and statistics.median(secs) < _SHORT_STEP_SECS


def _has_few_workers(status: Status) -> bool:
    """Returns True for fewer than 4 workers: they meet each other's updates all the time, and train well."""
    return sum(worker["state"] == "training" for worker in status["workers"]) < 4


def _device_transfer(status: Status, job: Job) -> Iterable[Measured]:
    return [(task, found.get("transfer")) for task, found in status["step_time"].items()]


def _staleness(name: str) -> Callable[[Status, Job], Iterable[Measured]]:
    def measure(status: Status, job: Job) -> Iterable[Measured]:
        stale = status["staleness"]
        yield "", stale[name] if stale and stale["histogram"] else None

    return measure


_STALE = 0.5
"""Mean staleness above which a rising loss is taken for an effect of stale gradients."""


def _loss_rise(status: Status, job: Job) -> Iterable[Measured]:
    """Yields the rise of the loss over its lowest, in a job whose gradients are stale: 0 in another one."""
    stale, rise = status["staleness"], status.get("loss_rise")
    if rise is None or job.update == "sync" or not stale or not stale["histogram"]:
        yield "", None
    else:
        yield "", rise if stale["mean"] > _STALE else 0.0


def _staleness_per_worker(status: Status, job: Job) -> Iterable[Measured]:
    """Yields the 95th percentile of the staleness for each other worker: with equal workers it is about 1."""
    others = max(1, sum(worker["state"] == "training" for worker in status["workers"]) - 1)
    return [(task, None if value is None else value / others) for task, value in _staleness("p95")(status, job)]


def _ps_cpu(status: Status, job: Job) -> Iterable[Measured]:
    return [(ps["task"], ps["cpu"] / ps["cores"] if ps["cpu"] is not None and ps["cores"] else None)
            for ps in status["ps"]]  # fmt: skip


def _ps_network(status: Status, job: Job) -> Iterable[Measured]:
    """Yields the traffic of each ps, in its busier direction, over the throughput that the doctor has measured."""
    for ps in status["ps"]:
        used = [ps[name] for name in ("sent_bytes_per_sec", "received_bytes_per_sec")]
        most = ps.get("measured_network") if None not in used else None
        yield ps["task"], max(one / rate for one, rate in zip(used, most, strict=True)) if most else None


def _balance(status: Status, job: Job) -> Iterable[Measured]:
    shares = [ps["share"] for ps in status["ps"]]
    fullest = max(status["ps"], key=lambda ps: ps["share"])
    is_even = len(shares) > 1 and sum(shares) and not job.ps_weights
    yield fullest["task"], max(shares) * len(shares) if is_even else None


def _ps_memory(status: Status, job: Job) -> Iterable[Measured]:
    return [(ps["task"], ps["rss_bytes"] / ps["memory_limit_bytes"] if ps["rss_bytes"] and ps["memory_limit_bytes"]
             else None) for ps in status["ps"]]  # fmt: skip


def _lost_gradients(name: str) -> Callable[[Status, Job], Iterable[Measured]]:
    def measure(status: Status, job: Job) -> Iterable[Measured]:
        lost = status[name]
        return [("", None if lost is None else lost / max(1, lost + status["step"]))]

    return measure


def _secs_at_risk(status: Status, job: Job) -> Iterable[Measured]:
    saves = [event["time"] for event in status["events"] if event["kind"] in ("saved", "restored")]
    return [("", status["time"] - max(saves) if saves and status["state"] == "training" else None)]


def _hold_share(status: Status, job: Job) -> Iterable[Measured]:
    save = status["save"]
    if not save or not save["count"] or save["hold_secs_mean"] is None:
        return [("", None)]
    return [("", save["count"] * save["hold_secs_mean"] / max(1.0, status["elapsed_secs"]))]


def _slow_workers(status: Status, job: Job) -> Iterable[Measured]:
    """Yields the time of each worker for a step over that of the usual worker.

    Under async that is the time that passes, if the worker has made enough steps of its own: the first ones are slow.
    Otherwise workers wait for each other, and it is their own work.
    """
    times = {task: found["secs"] - found["wait"] for task, found in status["step_time"].items()}
    if job.update == "async":
        begun = [w for w in status["workers"] if w["state"] == "training" and (w["steps"] or 0) >= _ENOUGH_STEPS]
        rates = {worker["task"]: worker["steps_per_sec"] for worker in begun}
        times = {task: 1 / rate for task, rate in rates.items() if rate}
    if len(times) > 1:
        # With two workers the faster one is the usual one: the median would lie between them.
        usual = statistics.median_low(times.values())
        yield from ((task, secs / usual if usual > 0 else None) for task, secs in times.items())


def _lag_growth(status: Status, job: Job) -> Iterable[Measured]:
    stream = status["stream"]
    yield "", stream["growth"] if stream else None


RULES = (
    HealthRule(
        "sync_share",
        "share of synchronisation",
        "Part of a step in pull, push, wait and update; median of the workers.  Not for a model below 1 MiB with steps "
        "below 10 ms.",
        "share",
        SYNC_SHARE,
        _parts(*SYNC_PARTS),
        advice.sync,
        "troubleshoot#it-is-slow",
        _is_small,
    ),
    HealthRule(
        "device_secs",
        "transfer to the device",
        "Time of copies to a GPU in a step.",
        "secs",
        0.005,
        _device_transfer,
        advice.device,
        "troubleshoot#it-is-slow",
    ),
    HealthRule(
        "conflict_rate",
        "updates in conflict",
        "Share of updates that met newer values than they were computed from.  Not with fewer than 4 workers.",
        "share",
        0.95,
        _staleness("conflict_rate"),
        advice.conflicts,
        "concepts#staleness",
        _has_few_workers,
    ),
    HealthRule(
        "staleness",
        "95th percentile of staleness per other worker",
        "95th percentile of staleness, divided by the number of other workers.",
        "ratio",
        3.0,
        _staleness_per_worker,
        advice.staleness,
        "concepts#staleness",
    ),
    HealthRule(
        LOSS_RISE,
        "rise of the loss while gradients are stale",
        "Rise of the loss above its lowest, under async and bounded with a mean staleness above 0.5.",
        "share",
        0.1,
        _loss_rise,
        advice.loss_rise,
        "troubleshoot#the-loss-explodes",
    ),
    HealthRule(
        "input_share",
        "waiting for input",
        "Part of a step spent waiting for the next batch; median of the workers.",
        "share",
        0.1,
        _parts("input"),
        advice.input,
        "troubleshoot#it-is-slow",
    ),
    HealthRule(
        "ps_cpu",
        "CPU of a ps",
        "Cores in use by a ps, divided by its cores.  Not with --ps_on_workers.",
        "share",
        0.9,
        _ps_cpu,
        advice.ps_cpu,
        "speed#how-many-ps",
    ),
    HealthRule(
        "ps_network",
        "network of a ps",
        "Traffic of a ps in its busier direction, divided by what the doctor has measured.",
        "share",
        0.8,
        _ps_network,
        advice.ps_network,
        "speed#compression",
    ),
    HealthRule(
        "balance",
        "largest part of the plan over the mean",
        "Bytes on the fullest ps, divided by the average.  Not with --ps_weights.",
        "ratio",
        1.5,
        _balance,
        advice.balance,
        "speed#how-many-ps",
    ),
    HealthRule(
        "ps_memory",
        "memory of a ps",
        "Memory of a ps, divided by its limit.",
        "share",
        0.85,
        _ps_memory,
        advice.ps_memory,
        "speed#memory-of-the-ps",
    ),
    HealthRule(
        "skipped",
        "skipped gradients",
        "Share of gradients that were not finite.",
        "share",
        0.01,
        _lost_gradients("skipped"),
        advice.skipped,
        "troubleshoot#the-loss-explodes",
    ),
    HealthRule(
        "dropped",
        "dropped gradients",
        "Share of gradients that came too late.",
        "share",
        0.05,
        _lost_gradients("dropped"),
        advice.dropped,
        "concepts#staleness",
    ),
    HealthRule(
        "unsaved_secs",
        "time since the last checkpoint",
        "Time since the last checkpoint: the work that a fault would cost.",
        "secs",
        900.0,
        _secs_at_risk,
        advice.unsaved,
        "checkpoints#save",
    ),
    HealthRule(
        "hold_share",
        "time that checkpoints hold pushes",
        "Share of the time in which checkpoints hold pushes.",
        "share",
        0.05,
        _hold_share,
        advice.holds,
        "checkpoints#save",
    ),
    HealthRule(
        "slow_worker",
        "step of a worker over the median",
        "Step of a worker without its waiting, divided by the step of the usual worker.",
        "ratio",
        1.5,
        _slow_workers,
        advice.slow_worker,
        "troubleshoot#it-is-slow",
    ),
    HealthRule(
        "lag_growth",
        "arriving data over data read",
        "Arriving data divided by data read, in the last minute.  At most 1 if the rest is read within 10 s.",
        "ratio",
        1.1,
        _lag_growth,
        advice.lag,
        "data#data-without-an-end",
    ),
)
"""The rules, in the order in which they are shown."""
