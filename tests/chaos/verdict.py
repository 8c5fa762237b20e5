"""Has a job that was disturbed ended right?

The loss is that of the last checkpoint on all examples.  An undisturbed run is gradient descent in numpy, from the
first checkpoint, in as many steps.  What may be between them:

    sync      a factor of TOLERANCE: batches of 16 of the 64 examples, their order, and a quorum that shrinks
    bounded   the same, and gradients that are a few updates old
    async     the same; and where a ps was lost, its variables have so many updates less, or the others so many more, as
              the chief has said
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from ps_train.checkpoint import found_in
from tests.support.models import Linear
from tests.support.processes import Process, TestCluster

RATE = 0.003
TOLERANCE = {"sync": 1.25, "bounded": 1.35, "async": 1.35}
LATE = ("waiting for ps:", "no worker has come", "all of them are gone")
"""What a process may say that was started again when the job was over."""


def told(text: str, processes: Mapping[str, Process]) -> str:
    lines = (f"--- {task}: {p.process.poll()}\n" + "\n".join(p.lines[-15:]) for task, p in processes.items())
    return text + "\n" + "\n".join(lines)


def check_end(
    text: str, processes: Mapping[str, Process], directory: pathlib.Path, update: str, steps: int, lost: int
) -> None:
    """It is done.  `lost`: how many updates the chiefs have said were lost."""
    story = told(text, processes)
    assert (directory / "result.json").exists(), story
    assert json.loads((directory / "result.json").read_text())["global_step"] == steps, story
    for process in processes.values():
        code = process.wait(10)
        assert code == 0 or (code == 1 and any(words in process.output for words in LATE)), story
    saved = found_in(str(directory))
    assert saved[0][0] == steps and saved[-1][0] == 0, story
    less = lost if update == "async" else 0
    low, high = undisturbed(saved[-1][1], steps + less), undisturbed(saved[-1][1], max(0, steps - less))
    loss = loss_of(*values(saved[0][1]))
    bounds = low / TOLERANCE[update], high * TOLERANCE[update]
    assert bounds[0] <= loss <= bounds[1], f"the loss is {loss}, not within {bounds}\n{story}"


def check_failure(text: str, processes: Mapping[str, Process], cause: str) -> None:
    """Everybody has ended with an error, and it names who is missing."""
    story = told(text, processes)
    for process in processes.values():
        assert process.wait(10) == 1, story
        assert cause in "\n".join(process.lines[-3:]), story


def check_orphans(text: str, cluster: TestCluster) -> None:
    """No process of the job is left, whoever started it."""
    mark, left = f"--ps_hosts={','.join(cluster.ps_hosts)}", []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text()
        except OSError:
            continue
        if mark in command:
            left.append(f"{path.parent.name}: {command}")
    assert not left, f"{text}: left over: {left}"


def values(path: str) -> tuple[np.ndarray, float]:
    reader = tf.train.load_checkpoint(path)
    return reader.get_tensor("w").astype(np.float64)[:, 0], float(reader.get_tensor("b"))


def loss_of(weights: np.ndarray, bias: float) -> float:
    data = Linear().data("train", "")
    return float(np.mean((data.features @ weights + bias - data.labels) ** 2))


def undisturbed(first: str, steps: int) -> float:
    """The loss after so many steps of plain gradient descent from that checkpoint."""
    data = Linear().data("train", "")
    weights, bias = values(first)
    for _ in range(steps):
        off = data.features @ weights + bias - data.labels
        weights = weights - RATE * 2 * data.features.T @ off / len(off)
        bias -= RATE * 2 * float(off.mean())
    return loss_of(weights, bias)
