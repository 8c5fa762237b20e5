"""What the chief must know to end a job: who of the others still trains; and the form of the result."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from ps_train.cluster.notices import RECOVERING, STARTING, TRAINING, WAITING, Seat
from ps_train.config import Job
from ps_train.faults import lost_share
from ps_train.hooks.tally import Tally


@dataclasses.dataclass(frozen=True)
class Others:
    """The other training tasks, as the board shows them: who still trains, and who could train on."""

    training: tuple[str, ...]
    waiting: tuple[str, ...]

    @classmethod
    def of(cls, seats: Iterable[Seat], me: str, alive: Callable[[Seat], bool]) -> Others:
        others = [seat for seat in seats if seat.task != me and alive(seat)]
        return cls(
            tuple(s.place() for s in others if s.state in (STARTING, TRAINING, RECOVERING)),
            tuple(s.place() for s in others if s.state == WAITING),
        )


class Living:
    """Tells a living task from a silent one, by whether its beat still grows."""

    def __init__(self, lease_secs: float) -> None:
        self._lease_secs = lease_secs
        self._seen: dict[str, tuple[int, float]] = {}

    def __call__(self, seat: Seat) -> bool:
        now = time.monotonic()
        beat, since = self._seen.get(seat.holder, (-1, now))
        if beat != seat.beat:
            beat, since = seat.beat, now
        self._seen[seat.holder] = (beat, since)
        return now - since < self._lease_secs


def write_result(job: Job, directory: str, result: dict[str, Any]) -> str:
    """Writes result.json in one step; returns its path."""
    path = os.path.join(directory, "result.json")
    with open(path + ".new", "w") as file:
        json.dump(result, file, indent=2)
        file.write("\n")
    os.replace(path + ".new", path)
    return path


def result_step(directory: str) -> int | None:
    """The global step that result.json speaks of; None where there is none that can be read."""
    try:
        with open(os.path.join(directory, "result.json")) as file:
            return int(json.load(file)["global_step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclasses.dataclass(frozen=True)
class Ending:
    """A run that is over: where it stands, how long it took, what it counted.  `made` are this run's steps;
    `saving`: see `Snapshots.report`."""

    step: int
    made: int
    examples_made: float
    wall_secs: float
    loss: float | None
    metrics: dict[str, float]
    tally: Tally
    saving: dict[str, Any] | None = None

    def lines(self, job: Job, cut_short: str) -> list[str]:
        """What is said of it on the console.  `cut_short`: why it ended, if it ended early."""
        if self.made == 0 and self.step >= job.max_steps:
            return [f"this job is finished already, at step {self.step} of {job.max_steps}"]
        lines = [
            f"trained {self.made} steps in {self.wall_secs:.1f}s: {self.made / self.wall_secs:.0f} global steps/s, "
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
            late += ", or were lost by --inject" if lost_share(job.inject) else ""
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
            "steps_per_sec": round(self.made / self.wall_secs, 3) if self.wall_secs else 0.0,
            "examples_per_sec": round(self.examples_made / self.wall_secs, 3) if self.wall_secs else 0.0,
            "update": job.update,
            "cluster": {"ps": list(job.ps_hosts), "chief": list(job.chief_hosts), "worker": list(job.worker_hosts)},
            "skipped": int(self.tally.skipped),
            "dropped": int(self.tally.dropped),
            **({"save": self.saving} if self.saving else {}),
            **{name: report for name, report in reports.items() if report is not None},
        }
