"""Has a job that was disturbed ended right?

Every update of the model adds one to each element of its two variables: the last checkpoint tells how many updates each
ps has made.  With one ps, and under `sync`, this is exactly the number of steps.  With two ps:

    ps 0      counts the global step in the same locked part as its update: exactly the number of steps
    bounded   a worker that dies in the middle of a push leaves an update on one ps only (`Torn.pushes`)
    async     the same; and ps 1 has as many updates less, if it was lost, or more, if ps 0 was lost, as the chief has
              said; in the second case also those that the chief had not heard of (`Torn.unheard`)
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Collection, Mapping

import tensorflow as tf

from ps_train.checkpoint.files import checkpoints_in
from tests.support.processes import Process, Processes

LATE = (
    "waiting for ps:",
    "no worker has come",
    "all of them are gone",
    "has not joined within",
    "s (recovery_timeout_secs): ",
)
"""What a process may say that was started again, or woke, when the job was over."""


@dataclasses.dataclass(frozen=True)
class Torn:
    """What may make the number of updates on ps 1 differ from that of ps 0.

    Attributes:
      pushes: how many pushes may have reached one ps and not the other: one for each worker that was struck, and one of
        each worker when a ps was struck.  A worker has one push on its way at a time.
      less: how many updates of ps 1 were lost, as a chief has said.
      more: how many updates of ps 0 were lost and made again, as a chief has said.
      unheard: how many more there may have been: others train on while the chief makes its burst or is gone.
    """

    pushes: int = 0
    less: int = 0
    more: int = 0
    unheard: int = 0

    def bounds(self, update: str, steps: int) -> tuple[int, int]:
        """Returns the fewest and the most updates that ps 1 may have made in so many steps."""
        if update == "sync":
            return steps, steps
        if update == "bounded":  # what a lost ps takes with it is made again on both
            return steps - self.pushes, steps + self.pushes
        lost = self.more - self.less
        return steps + lost - self.pushes, steps + lost + self.pushes + self.unheard


def told(text: str, processes: Mapping[str, Process]) -> str:
    lines = (f"--- {task}: {p.process.poll()}\n" + "\n".join(p.lines[-15:]) for task, p in processes.items())
    return text + "\n" + "\n".join(lines)


def check_end(
    text: str,
    processes: Mapping[str, Process],
    directory: pathlib.Path,
    update: str,
    steps: int,
    torn: Torn,
    told_to_stop: Collection[str] = (),
) -> None:
    """It is done.

    Args:
      torn: what the blows may have torn apart.
      told_to_stop: tasks that got a signal; who has not taken part yet stops alone.
    """
    story = told(text, processes)
    assert (directory / "result.json").exists(), story
    assert json.loads((directory / "result.json").read_text())["global_step"] == steps, story
    for task, process in processes.items():
        code = process.wait(10)
        is_late = code == 1 and any(words in process.output for words in LATE)
        assert code == 0 or is_late or (code == 143 and task in told_to_stop), story
    saved = checkpoints_in(str(directory))
    assert saved[0][0] == steps, f"the last checkpoint is {saved[:1]}\n{story}"
    made = updates_in(saved[0][1])
    least, most = torn.bounds(update, steps)
    fits = any(here == steps and least <= there <= most for here, there in (made, made[::-1]))
    assert fits, f"{made} updates, not {steps} on ps 0 and {least} to {most} on ps 1\n{story}"


def check_failure(text: str, processes: Mapping[str, Process], cause: str) -> None:
    """Everybody has ended with an error, and it names who is missing."""
    story = told(text, processes)
    for process in processes.values():
        assert process.wait(10) == 1, story
        assert cause in "\n".join(process.lines[-3:]), story


def check_orphans(text: str, processes: Processes) -> None:
    """No process of the job is left, whichever process started it."""
    left = [process.pid for process in processes.started if process.process.poll() is None]
    assert not left and not processes.orphans(), f"{text}: left over: {left}, {processes.orphans()}"


def updates_in(path: str) -> list[int]:
    """Returns how many updates each of the two variables has got."""
    reader = tf.train.load_checkpoint(path)
    values = [reader.get_tensor(name) for name in ("first", "second")]
    assert all(len({*value}) == 1 for value in values), f"an update is made whole: {values}"
    return [int(value[0]) for value in values]
