"""What the chief must know to end a job: who of the others still trains; and the form of the result."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ps_train.config.fault_spec import dropped_share
from ps_train.config.job import Job
from ps_train.coordination.records import RECOVERING, STARTING, TRAINING, WAITING, TaskStatus
from ps_train.hooks.counters import RunCounterValues


@dataclasses.dataclass(frozen=True)
class PeerStates:
    """The other training tasks, as the board shows them: who still trains, and who could train on."""

    training: tuple[str, ...]
    waiting: tuple[str, ...]

    @classmethod
    def from_records(cls, seats: Iterable[TaskStatus], me: str, alive: Callable[[TaskStatus], bool]) -> PeerStates:
        others = [seat for seat in seats if seat.task != me and alive(seat)]
        return cls(
            tuple(s.location() for s in others if s.state in (STARTING, TRAINING, RECOVERING)),
            tuple(s.location() for s in others if s.state == WAITING),
        )


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Formats metrics for the console: `accuracy 0.9417  loss 0.1873`."""
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def write_result(job: Job, directory: str, result: dict[str, Any]) -> str:
    """Writes result.json in one step; returns its path."""
    path = os.path.join(directory, "result.json")
    with open(path + ".new", "w") as file:
        json.dump(result, file, indent=2)
        file.write("\n")
    os.replace(path + ".new", path)
    return path


def read_result_step(directory: str) -> int | None:
    """The global step that result.json speaks of; None where there is none that can be read."""
    try:
        with open(os.path.join(directory, "result.json")) as file:
            return int(json.load(file)["global_step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """A run that is over: where it stands, how long it took, what it counted.  `made` are this run's steps;
    `saving`: see `Snapshots.report`."""

    step: int
    steps_made: int
    examples_made: float
    wall_secs: float
    loss: float | None
    metrics: dict[str, float]
    tally: RunCounterValues
    saving: dict[str, Any] | None = None

    def lines(self, job: Job, cut_short: str) -> list[str]:
        """What is said of it on the console.  `cut_short`: why it ended, if it ended early."""
        if self.steps_made == 0 and self.step >= job.max_steps:
            return [f"this job is finished already, at step {self.step} of {job.max_steps}"]
        lines = [
            f"trained {self.steps_made} steps in {self.wall_secs:.1f}s: "
            f"{self.steps_made / self.wall_secs:.0f} global steps/s, "
            f"{self.examples_made / self.wall_secs:.0f} examples/s"
        ]
        if self.step < job.max_steps:
            lines.append(f"{cut_short} at step {self.step} of {job.max_steps}")
        if self.tally.skipped:
            lines.append(f"{self.tally.skipped} gradients were skipped because they were no finite numbers")
        if self.saving:
            count, mean, most = (self.saving[name] for name in ("count", "hold_secs_mean", "hold_secs_max"))
            saved = "1 checkpoint" if count == 1 else f"{count} checkpoints"
            lines.append(f"saved {saved}; pushes were held for {mean}s on average, {most}s at most")
        if self.tally.dropped:
            late = "came too late for their step" if job.update == "sync" else "were older than max_staleness"
            late += ", or were lost by --inject" if dropped_share(job.inject) else ""
            late += " or brought examples that others had used" if job.is_dynamic else ""
            lines.append(f"{self.tally.dropped} gradients were dropped because they {late}")
        return lines

    def result(self, job: Job) -> dict[str, Any]:
        """What result.json holds; rates are of this run, counts of the whole job."""
        reports = {"staleness": self.tally.staleness_report(), "waiting": self.tally.waiting_report()}
        return {
            "global_step": self.step,
            "examples": int(self.tally.examples),
            "loss": self.loss,
            "metrics": self.metrics,
            "wall_secs": round(self.wall_secs, 3),
            "steps_per_sec": round(self.steps_made / self.wall_secs, 3) if self.wall_secs else 0.0,
            "examples_per_sec": round(self.examples_made / self.wall_secs, 3) if self.wall_secs else 0.0,
            "update": job.update,
            "cluster": {"ps": list(job.ps_hosts), "chief": list(job.chief_hosts), "worker": list(job.worker_hosts)},
            "skipped": int(self.tally.skipped),
            "dropped": int(self.tally.dropped),
            **({"save": self.saving} if self.saving else {}),
            **{name: report for name, report in reports.items() if report is not None},
        }
