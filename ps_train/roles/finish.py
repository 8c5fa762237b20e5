"""What the chief must know to end a job: who of the others still trains; and the form of the result."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from ps_train.cluster.notices import Seat
from ps_train.config import Job


@dataclasses.dataclass(frozen=True)
class Others:
    """The other training tasks, as the board shows them: who still trains, and who could train on."""

    training: tuple[str, ...]
    waiting: tuple[str, ...]

    @classmethod
    def of(cls, seats: Iterable[Seat], me: str, alive: Callable[[Seat], bool]) -> Others:
        others = [seat for seat in seats if seat.task != me and alive(seat)]
        return cls(
            tuple(s.place() for s in others if s.state in ("starting", "training")),
            tuple(s.place() for s in others if s.state == "waiting"),
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


def make_result(
    job: Job,
    step: int,
    steps_made: int,
    examples: float,
    examples_made: float,
    loss: float | None,
    metrics: dict[str, float],
    wall_secs: float,
) -> dict[str, Any]:
    """What result.json holds; rates are of this run, counts of the whole job."""
    return {
        "global_step": step,
        "examples": int(examples),
        "loss": loss,
        "metrics": metrics,
        "wall_secs": round(wall_secs, 3),
        "steps_per_sec": round(steps_made / wall_secs, 3) if wall_secs else 0.0,
        "examples_per_sec": round(examples_made / wall_secs, 3) if wall_secs else 0.0,
        "update": job.update,
        "cluster": {"ps": list(job.ps_hosts), "chief": list(job.chief_hosts), "worker": list(job.worker_hosts)},
    }
