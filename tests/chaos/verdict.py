"""Has a job that was disturbed ended right?

The model's loss depends on nothing but how many updates were made: each multiplies the distance to the optimum by
1 - RATE, and so the loss by 0.99.  In an undisturbed run that is `undisturbed(steps)`.  What a run may be off by:

    sync      rounding: TOLERANCE is less than one update
    bounded   gradients that are a few updates old are larger than those of an undisturbed run, and so is what they do
    async     the same; and where a ps was lost, its variables have so many updates less, or the others so many more, as
              the chief has said
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Collection, Mapping

import numpy as np
import tensorflow as tf

from ps_train.checkpoint import found_in
from tests.support.processes import Process, Processes

RATE = 0.005
TOLERANCE = {"sync": 1.002, "bounded": 1.05, "async": 1.05}
LATE = ("waiting for ps:", "no worker has come", "all of them are gone", "has not joined within", "s (recovery_secs): ")
"""What a process may say that was started again, or woke, when the job was over."""


def told(text: str, processes: Mapping[str, Process]) -> str:
    lines = (f"--- {task}: {p.process.poll()}\n" + "\n".join(p.lines[-15:]) for task, p in processes.items())
    return text + "\n" + "\n".join(lines)


def check_end(
    text: str,
    processes: Mapping[str, Process],
    directory: pathlib.Path,
    update: str,
    steps: int,
    lost: int,
    told_to_stop: Collection[str] = (),
) -> None:
    """It is done.

    Args:
      lost: how many updates the chiefs have said were lost.
      told_to_stop: tasks that got a signal; who has not taken part yet stops alone.
    """
    story = told(text, processes)
    assert (directory / "result.json").exists(), story
    assert json.loads((directory / "result.json").read_text())["global_step"] == steps, story
    for task, process in processes.items():
        code = process.wait(10)
        is_late = code == 1 and any(words in process.output for words in LATE)
        assert code == 0 or is_late or (code == 143 and task in told_to_stop), story
    saved = found_in(str(directory))
    assert saved[0][0] == steps, f"the last checkpoint is {saved[:1]}\n{story}"
    less, loss = lost if update == "async" else 0, loss_of(saved[0][1])
    bounds = undisturbed(steps + less) / TOLERANCE[update], undisturbed(steps - less) * TOLERANCE[update]
    assert bounds[0] <= loss <= bounds[1], f"the loss is {loss}, not within {bounds}\n{story}"


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


def loss_of(path: str) -> float:
    reader = tf.train.load_checkpoint(path)
    return sum(float(np.sum((reader.get_tensor(name) - 1) ** 2)) / 2 for name in ("first", "second"))


def undisturbed(steps: int) -> float:
    """The loss after so many updates of seven zeros, the optimum being seven ones."""
    return float(7 / 2 * (1 - RATE) ** (2 * steps))
