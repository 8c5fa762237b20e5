"""Workers with several devices in real processes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.long import long
from tests.support.machine.processes import Processes, TestCluster

pytestmark = pytest.mark.timeout(300)

STEPS = 60
ADDING = ["--model=tests.support.models.small:Adding", "--update=sync", f"--max_steps={STEPS}", "--batch_size=32"]
FAULT = ["--inject_fault=kill:ps:0@30", "--max_restarts=1", "--save_steps=10"]


@pytest.mark.long
@pytest.mark.parametrize("fault", [[], long(FAULT)], ids=["", "lost_ps"])
def test_two_workers_of_two_devices_make_exactly_the_updates_of_all_data(processes: Processes, fault: list) -> None:
    directory = processes.directory / "model"
    run = processes.run(*ADDING, *fault, "--towers=2", f"--model_dir={directory}", "--verbose")
    assert run.wait(200) == 0, run.output
    assert "towers=2 (from the command line): each batch is divided among /device:CPU:0, /device:CPU:1" in run.output
    saved = tf.train.load_checkpoint(str(directory))
    assert saved.get_tensor("global_step") == STEPS
    for name in ("first", "second"):
        np.testing.assert_array_equal(saved.get_tensor(name), STEPS * np.arange(1, 4))


@pytest.mark.long
def test_workers_may_have_different_numbers_of_devices(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2, *ADDING)
    tasks = [cluster.start("ps", 0), cluster.start("worker", 0), cluster.start("worker", 1, "--towers=4")]
    assert [task.wait(200) for task in tasks] == [0, 0, 0], tasks[1].output
    saved = tf.train.load_checkpoint(str(cluster.model_dir))
    np.testing.assert_array_equal(saved.get_tensor("first"), STEPS * np.arange(1, 4))


def test_all_devices_of_a_machine_without_a_gpu_are_one_and_too_many_are_refused(processes: Processes) -> None:
    few = processes.run(*ADDING, "--towers=all", f"--model_dir={processes.directory / 'model'}")
    many = processes.run(*ADDING, "--towers=33", f"--model_dir={processes.directory / 'other'}")
    assert many.wait(60) == 2
    assert "towers=33 (from the command line) is more than batch_size=32" in many.output and len(many.lines) == 1
    assert few.wait(200) == 0, few.output
    assert "has no effect: this worker has no GPU, so one device computes" in few.output
