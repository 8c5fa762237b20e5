"""Has a job that was disturbed ended right?

Every update of the model adds one to its counters on each ps, so the last checkpoint tells how many updates each ps has
made.  With one ps, and under `sync`, this is exactly the number of steps.  With two ps:

    ps 0      counts the global step in the same locked part as its update: exactly the number of steps
    bounded   a worker that dies in the middle of a push leaves an update on one ps only (`Promise.pushes`)
    async     the same; and ps 1 has as many updates less, if it was lost, or more, if ps 0 was lost, as the chief has
              said; in the second case also those that the chief had not heard of (`excess.py`)
    dynamic   each ps has used each example as often as there are epochs
    elastic   averages (`--outer_optimizer=elastic`) follow the workers, and are never ahead of all steps

With local steps the outer optimizer adds each difference, or under `sync` their mean (`Storm.outer_arguments`).  So
they count updates too, as many for a push as the round had steps.

A row of a table has got the updates of its ps, neither more nor less; where rows do not wait for rounds, those of each
worker, also of rounds that were abandoned (`Promise.lone`).  What a codec leaves out comes later or at the
end; with `top_k` a worker that dies takes it with it (`Promise.slack`).
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Collection, Mapping

import numpy as np

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.machine.processes import Process, Processes
from tests.support.models.stormy import HOT
from tests.support.saved.checkpoints import read_values
from tests.trials.storms.storm import EPOCHS

LATE = (
    "waiting for ps:",
    "no worker has come",
    "all of them are gone",
    "has not joined within",
    "has not described the job yet",
    "s (recovery_timeout_secs): ",
)
"""What a process may say that was started again, or woke, when the job was over."""

NEAR = 0.02
"""How far a sum may be from a whole number: a mean over three workers is not exact in float32."""

Values = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Promise:
    """What the values of the last checkpoint must be.

    Attributes:
      steps: the global step.
      excess: the fewest and the most updates that ps 1 has made beyond those of ps 0, apart from `pushes`.
      pushes: how many updates may have reached one ps and not the other: those of a push of each worker that was
        struck, and of each worker when a ps was struck.  A worker has one push on its way at a time; with local steps
        it stands for as many updates.
      slack: how far an element may be from the number of updates, where a lossy codec sends some elements later.
      uses: whether uses of examples are counted.
      averages: whether values are elastic averages: they follow the workers, and are never ahead of all steps.
      row_rate: the part by which an update moves rows.
      lone: where rows do not wait for rounds, by how many workers an update may have moved them, and by how many
        further steps abandoned rounds have moved them at most.
    """

    steps: int
    excess: tuple[int, int] = (0, 0)
    pushes: int = 0
    slack: float = 0.0
    uses: bool = False
    averages: bool = False
    row_rate: float = 1.0
    lone: tuple[int, int] | None = None

    @property
    def on_ps_0(self) -> tuple[int, int]:
        """Returns the fewest and the most updates that ps 0 may have made."""
        return (1 if self.averages else self.steps), self.steps

    @property
    def updates(self) -> tuple[int, int]:
        """Returns the fewest and the most updates that ps 1 may have made."""
        if self.averages:
            return self.on_ps_0
        return self.steps + self.excess[0] - self.pushes, self.steps + self.excess[1] + self.pushes


class Plan:
    """Which ps has which variables, or which of their rows, as the chief has said it."""

    def __init__(self, output: str) -> None:
        self._slices: list[tuple[int, str, slice]] = []
        ps = None
        for line in output.splitlines():
            if head := re.match(r"ps:(\d)  .* variables? or slices?$", line):
                ps = int(head[1])
            elif ps is not None and (part := re.match(r"  (\S+)(?: rows (\d+)-(\d+))?  ", line)):
                rows = slice(int(part[2]), int(part[3]) + 1) if part[2] else slice(None)
                self._slices.append((ps, part[1], rows))
            elif ps is not None:
                break

    def parts(self, values: Values, name: str) -> list[tuple[int, np.ndarray]]:
        """Returns each ps that has a part of a variable, with the part."""
        found = [(ps, values[name][rows]) for ps, known, rows in self._slices if known == name]
        assert found, f"the chief has not said where {name} is"
        return found


def faults(values: Values, plan: Plan, promise: Promise) -> list[str]:
    """Returns what is not as promised; nothing where all is right."""
    found: list[str] = []
    made: dict[int, float] = {}
    for name in ("first", "second"):
        for ps, part in plan.parts(values, name):
            least, most = promise.on_ps_0 if ps == 0 else promise.updates
            slack = promise.slack + NEAR
            if part.min() < least - slack or part.max() > most + slack:
                found.append(f"{name} on ps {ps}: {part.tolist()}, not {least} to {most}")
            if not promise.slack and np.ptp(part) > NEAR:
                found.append(f"{name}: an update is made whole, but it is {part.tolist()}")
            made[ps] = float(np.rint(part[0]))
    if "hot" in values:
        found += _faults_of_tables(values, plan, promise, made)
    if promise.uses:
        found += _faults_of_uses(values, plan, promise)
    return found


def _faults_of_tables(values: Values, plan: Plan, promise: Promise, made: Mapping[int, float]) -> list[str]:
    found = []
    parts = [("hot", ps, part, None) for ps, part in plan.parts(values, "hot")]
    used = plan.parts(values, "open/used")
    for (ps, part), (_, counts) in zip(plan.parts(values, "open"), used, strict=True):
        parts.append(("open", ps, part[counts[:, 0] > 0], counts[counts[:, 0] > 0, 0]))
    if (rows := sum(len(part) for name, _, part, _ in parts if name == "open")) != HOT:
        found.append(f"open: {rows} ids have rows, not {HOT}")
    for name, ps, part, counts in parts:
        if not len(part):
            continue
        least, most = (promise.steps, promise.steps) if ps == 0 else promise.updates
        if ps in made and not promise.slack:  # exactly what the other variables of this ps have got
            least = most = made[ps]
        if promise.lone is not None:
            times, abandoned = promise.lone
            most = promise.updates[1] * times + abandoned
            if np.ptp(part) > NEAR:
                found.append(f"{name} on ps {ps}: an update is made whole, but it is {part.tolist()}")
        least, most = least * promise.row_rate, most * promise.row_rate
        if part.min() < least - NEAR or part.max() > most + NEAR:
            found.append(f"{name} on ps {ps}: {part.tolist()}, not {least:g} to {most:g}")
        if counts is not None and np.abs(part - counts[:, np.newaxis] * promise.row_rate).max() > NEAR:
            found.append(f"{name} on ps {ps}: {part.tolist()}, but its rows were used {counts.tolist()} times")
    return found


def _faults_of_uses(values: Values, plan: Plan, promise: Promise) -> list[str]:
    found = []
    for name in ("uses", "first_uses", "second_uses"):
        for ps, part in plan.parts(values, name) if name in values else []:
            times = EPOCHS * (promise.row_rate if name == "uses" else 1.0)
            over = part.ravel() - times
            # A row that does not wait for rounds knows also those that were abandoned, and made again elsewhere.
            is_more = name == "uses" and promise.lone is not None
            wrong = np.flatnonzero((over < -NEAR) | ((over > NEAR) & (not is_more)))
            if len(wrong):
                told = dict(zip(wrong[:20].tolist(), part.ravel()[wrong][:20].tolist(), strict=True))
                found.append(f"{name} on ps {ps}: {len(wrong)} examples not used {times:g} times: {told}")
    return found


def told(text: str, processes: Mapping[str, Process]) -> str:
    lines = (f"--- {task}: {p.process.poll()}\n" + "\n".join(p.lines[-15:]) for task, p in processes.items())
    return text + "\n" + "\n".join(lines)


def check_processes(
    text: str, processes: Mapping[str, Process], directory: pathlib.Path, told_to_stop: Collection[str] = ()
) -> int:
    """The job is done, and every process has ended as it must.

    Args:
      told_to_stop: tasks that got a signal; who has not taken part yet stops alone.

    Returns:
      The step at the end.
    """
    story = told(text, processes)
    assert (directory / "result.json").exists(), story
    for task, process in processes.items():
        code = process.wait(10)
        is_stopped = code == 143 and task in told_to_stop
        assert code == 0 or is_late(process) or is_stopped, f"{task} ended with {code}\n{story}"
    return int(json.loads((directory / "result.json").read_text())["global_step"])


def is_late(process: Process) -> bool:
    return process.wait(10) == 1 and any(words in process.output for words in LATE)


def check_values(text: str, directory: pathlib.Path, plan: Plan, promise: Promise) -> None:
    """The last checkpoint is as promised."""
    saved = checkpoints_in(str(directory))
    assert saved and saved[0][0] == promise.steps, f"the last checkpoint is {saved[:1]}, not {promise.steps}\n{text}"
    wrong = faults(read_values(saved[0][1]), plan, promise)
    assert not wrong, "\n".join([*wrong, str(promise), text])


def check_failure(text: str, processes: Mapping[str, Process], causes: Collection[str]) -> None:
    """Everybody has ended with an error, and it names one that is missing."""
    story = told(text, processes)
    for process in processes.values():
        assert process.wait(10) == 1, story
        assert any(cause in "\n".join(process.lines[-3:]) for cause in causes), story


def check_orphans(text: str, processes: Processes) -> None:
    """No process of the job is left, whichever process started it."""
    left = [process.pid for process in processes.started if process.process.poll() is None]
    assert not left and not processes.orphans(), f"{text}: left over: {left}, {processes.orphans()}"
