"""Jobs without ps of their own (`--ps_on_workers`): their numbers, and the loss of a worker that is a ps."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.processes import Process, Processes

STEPS = 500
ADDING = ("--model=tests.support.models:Adding", "--batch_size=32", "--shuffle_buffer=0", "--log_secs=0.1")


def train(processes: Processes, name: str, *flags: str) -> Process:
    """Runs a job of two workers on this machine to its end."""
    process = processes.run("--num_workers=2", f"--model_dir={processes.directory / name}", *flags)
    assert process.wait(150) == 0, process.output
    assert not processes.orphans()
    return process


def values(processes: Processes, name: str) -> dict[str, np.ndarray]:
    """The last checkpoint, without the ids of its run."""
    reader = tf.train.load_checkpoint(str(processes.directory / name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key != "ps_train/run"}


@pytest.mark.parametrize(("victim", "update"), [(1, "sync"), long(0, "sync"), long(0, "async"), long(1, "bounded")])
def test_a_worker_that_is_killed_comes_back_as_ps_and_worker_and_the_numbers_are_exact(
    processes: Processes, victim: int, update: str
) -> None:
    flags = [f"--update={update}", f"--max_steps={STEPS}", "--save_steps=100", "--max_restarts=1", *ADDING]
    process = train(processes, "model", "--ps_on_workers", *flags, f"--inject_fault=kill:worker:{victim}@180")
    assert re.search(r"worker:\d was killed|signal 9", process.output), process.output
    assert re.search(rf"ps:{victim} restarted; restored step (\d+)", process.output), process.output
    result = json.loads((processes.directory / "model" / "result.json").read_text())
    assert result["global_step"] == STEPS
    if update != "sync":
        return
    for step, path in checkpoints_in(str(processes.directory / "model")):
        for name in ("first", "second"):
            found = tf.train.load_checkpoint(path).get_tensor(name)
            np.testing.assert_array_equal(found, step * np.arange(1, 4), err_msg=f"{name} at step {step}")


@pytest.mark.long
@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--pull_codec=bfloat16", "--push_codec=int8"),
        ("--num_ps=0", "--towers=2", "--accumulate=2"),
    ],
    ids=" ".join,
)
def test_the_values_are_to_the_bit_those_of_as_many_ps(processes: Processes, flags: tuple[str, ...]) -> None:
    common = ("--update=sync", "--max_steps=60", *(flag for flag in flags if flag != "--num_ps=0"))
    train(processes, "apart", "--num_ps=2", *common)
    train(processes, "here", *(["--ps_on_workers"] if "--num_ps=0" not in flags else ["--num_ps=0"]), *common)
    apart, here = values(processes, "apart"), values(processes, "here")
    assert apart.keys() == here.keys()
    for name, value in apart.items():
        np.testing.assert_array_equal(here[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize(("update", "steps", "replicas"), [("sync", 1500, 2), ("async", 6000, 1)])
def test_a_batch_size_that_follows_the_network_is_read_by_the_input_of_a_worker_that_is_a_ps(
    processes: Processes, update: str, steps: int, replicas: int
) -> None:
    flags = (f"--update={update}", "--batch_size=8..32", "--health_limits=sync_share:0.001", f"--max_steps={steps}")
    process = train(processes, "model", "--ps_on_workers", *flags, "--model=tests.support.models:Adding")
    assert "batch_size=16 from step" in process.output, process.output
    result = json.loads((processes.directory / "model" / "result.json").read_text())
    assert result["global_step"] == steps
    assert result["examples"] > steps * 8 * replicas
