"""Jobs on images: two workers train on the synthetic shapes, asynchronously and synchronously."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from tests.support.long import long
from tests.support.machine.processes import ROOT, Processes, TestCluster

pytestmark = pytest.mark.timeout(300)

SMALL = ["--model=ps_train.models.cifar10:ConvNet", "--model_arg=width=16", "--model_arg=dropout=0"]
SMALL += ["--learning_rate=0.005", "--batch_size=32"]
PRESET = f"--flagfile={ROOT / 'flags' / 'cifar10.flags'}"


def accuracy_of(directory: pathlib.Path) -> float:
    return json.loads((directory / "result.json").read_text())["metrics"]["accuracy"]


@pytest.mark.parametrize(
    ("update", "steps", "sharding"),
    [
        long("async", 200, "static"),
        ("sync", 100, "static"),
        long("async", 200, "dynamic"),
        long("sync", 100, "dynamic"),
    ],
)
@pytest.mark.long
def test_two_workers_learn_to_tell_the_shapes_apart(
    processes: Processes, update: str, steps: int, sharding: str
) -> None:
    schedule = [f"--max_steps={steps}", f"--model_arg=decay_steps={steps}"]
    cluster = TestCluster(processes, 1, 2, *SMALL, *schedule, f"--update={update}", f"--sharding={sharding}")
    ps = cluster.start("ps", 0)
    workers = [cluster.start("worker", index) for index in range(2)]
    assert [worker.wait(200) for worker in workers] == [0, 0], workers[0].output
    assert ps.wait(20) == 0
    assert accuracy_of(cluster.model_dir) > 0.7, workers[0].output


@pytest.mark.long
@pytest.mark.parametrize(
    "flags", [["--update=async"], ["--update=sync", "--max_steps=100", "--model_arg=decay_steps=100"]]
)
def test_the_preset_ends_at_95_percent_at_least(processes: Processes, flags: list[str]) -> None:
    directory = processes.directory / "model"
    run = processes.run(PRESET, *flags, f"--model_dir={directory}", "--export_dir=export")
    assert run.wait(280) == 0, run.output
    assert accuracy_of(directory) >= 0.95, run.output
    assert (processes.directory / "export" / "1" / "saved_model.pb").exists()


@pytest.mark.long
def test_two_workers_train_on_the_binary_files_of_data_dir(processes: Processes) -> None:
    folder = processes.directory / "data" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    records = np.random.default_rng(5).integers(0, 256, (10_000, 3073), np.uint8)
    records[:, 0] = 0  # all images are of class 0
    for name in [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]:
        (folder / name).write_bytes(records.tobytes())
    directory = processes.directory / "model"
    flags = ["--model_arg=width=4", "--max_steps=40", f"--data_dir={folder.parent}", f"--model_dir={directory}"]
    run = processes.run(PRESET, *flags)
    assert run.wait(200) == 0, run.output
    assert accuracy_of(directory) == 1.0


def test_files_that_are_missing_end_the_job_with_one_line(processes: Processes) -> None:
    run = processes.run(PRESET, f"--data_dir={processes.directory}", "--num_workers=1")
    assert run.wait(60) == 2, run.output
    assert f"data_batch_5.bin are not in data_dir={processes.directory}" in run.output
    assert "Traceback" not in run.output
