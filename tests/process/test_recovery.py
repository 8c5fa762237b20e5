"""A ps dies and comes back at its address: training goes on, with the values that the update mode promises."""

from __future__ import annotations

import json
import re
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.machine.processes import Process, Processes, TestCluster, eventually

MAX_STEPS = 400
COUNTING = (f"--max_steps={MAX_STEPS}", "--model=tests.support.models.small:Counting", "--batch_size=1")
AT_THAT_MOMENT = 4
"""Asynchronous updates that had reached one ps and not the other."""

RESUMED_SECS = 60
"""Seconds until training goes on: about 2 on an idle machine; the machines of tests are busy."""

TOLD = re.compile(r"ps:(\d) restarted; restored step (\d+); (\d+) updates lost")


class Disturbed:
    """A job of 2 ps and 2 workers that was run to its end, with one ps killed and started again on the way."""

    def __init__(self, processes: Processes, victim: int, *flags: str) -> None:
        self.cluster = TestCluster(processes, 2, 2, "--log_secs=0.1", "--shuffle_buffer=0", "--save_steps=100", *flags)
        servers, self.workers = self.cluster.start_all()
        eventually(self.is_stopped_after_a_checkpoint, 60, "the second checkpoint")
        servers[victim].send(signal.SIGKILL)
        self.chief.send(signal.SIGCONT)
        servers[victim] = self.cluster.start("ps", victim)
        servers[victim].wait_for("serves", 40)
        back = time.monotonic()
        self.wait_for_progress()
        self.resumed_secs = time.monotonic() - back
        for process in (*self.workers, *servers):
            assert process.wait(60) == 0, process.output
        found = TOLD.search(self.chief.output)
        assert found is not None, self.chief.output
        self.restarted, self.restored, self.lost = (int(group) for group in found.groups())
        result = json.loads((self.cluster.model_dir / "result.json").read_text())
        assert result["global_step"] == self.value("global_step")

    @property
    def chief(self) -> Process:
        return self.workers[0]

    def is_stopped_after_a_checkpoint(self) -> bool:
        """Stops the chief where it has made steps since a checkpoint, and the next one is not due yet."""
        self.chief.send(signal.SIGSTOP)
        saved = checkpoints_in(str(self.cluster.model_dir))
        shown = re.findall(r"^step (\d+)/", self.chief.output, re.MULTILINE)
        if saved and shown and saved[0][0] >= 50 and saved[0][0] + 10 <= int(shown[-1]) <= saved[0][0] + 80:
            return True
        self.chief.send(signal.SIGCONT)
        return False

    def wait_for_progress(self) -> None:
        self.chief.wait_for(" restarted; restored step", 40)
        seen = self.chief.output.index(" restarted; restored step")
        eventually(lambda: "\nstep " in self.chief.output[seen:], 40, "progress")

    def value(self, name: str) -> np.ndarray:
        return tf.train.load_checkpoint(str(self.cluster.model_dir)).get_tensor(name)

    def on(self, ps: int) -> str:
        """The variable of the Counting model that lives there."""
        table = self.chief.output.split(f"ps:{ps}  ")[1]
        return next(name for name in re.findall(r"^  (\w+)  ", table, re.MULTILINE))


def count(values: np.ndarray) -> int:
    assert len({*values}) == 1, "an update is made whole"
    return int(values[0])


@pytest.mark.long
def test_after_the_loss_of_a_ps_only_its_variables_go_back_and_the_others_keep_their_newer_state(
    processes: Processes,
) -> None:
    run = Disturbed(processes, 1, *COUNTING)
    for worker in run.workers:
        assert f"lost ps:1 ({run.cluster.ps_hosts[1]}): " in worker.output and "; waiting" in worker.output
    assert run.restarted == 1 and run.restored >= 50 and run.lost > 0
    assert run.resumed_secs <= RESUMED_SECS
    assert run.value("global_step") == MAX_STEPS
    assert abs(count(run.value(run.on(1))) - (MAX_STEPS - run.lost)) <= AT_THAT_MOMENT
    assert count(run.value(run.on(0))) == MAX_STEPS, "it holds the global step, too"


@pytest.mark.long
def test_the_tables_and_local_variables_of_a_worker_outlive_the_session_that_lost_a_ps(processes: Processes) -> None:
    flags = ["--model=tests.support.models.small:Remembering", "--batch_size=1", "--max_steps=400", "--steps_per_run=1"]
    run = Disturbed(processes, 1, *flags)
    assert run.value("global_step") == 400


def test_after_the_loss_of_ps_0_the_step_goes_back_and_the_job_still_ends_at_exactly_max_steps(
    processes: Processes,
) -> None:
    run = Disturbed(processes, 0, *COUNTING)
    assert run.restarted == 0 and run.restored >= 50 and run.lost > 0
    assert run.resumed_secs <= RESUMED_SECS
    assert run.value("global_step") == MAX_STEPS
    assert count(run.value(run.on(0))) == MAX_STEPS
    assert count(run.value(run.on(1))) >= MAX_STEPS + run.lost - AT_THAT_MOMENT


@pytest.mark.parametrize("update", [long(("async", "--ps_recovery=consistent")), long(("bounded",))], ids=" ".join)
def test_other_modes_do_so_too_where_all_goes_back_to_the_checkpoint(
    processes: Processes, update: tuple[str, ...]
) -> None:
    run = Disturbed(processes, 1, *COUNTING, f"--update={update[0]}", *update[1:])
    assert run.restarted == 1 and run.restored >= 50
    assert run.value("global_step") == MAX_STEPS
    assert count(run.value("first")) == count(run.value("second")) == MAX_STEPS


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, long(1)])
def test_synchronous_training_ends_at_the_values_of_a_run_that_was_not_disturbed(
    processes: Processes, victim: int
) -> None:
    """Exactly: both workers' batches together are all data, and every update adds the same integers."""
    steps = 600
    flags = ["--update=sync", f"--max_steps={steps}", "--batch_size=32"]
    run = Disturbed(processes, victim, "--model=tests.support.models.small:Adding", *flags)
    assert run.restarted == victim and run.restored >= 50 and run.lost > 0
    expected = steps * np.arange(1, 4)
    for step, path in checkpoints_in(str(run.cluster.model_dir)):
        for name in ("first", "second"):
            found = tf.train.load_checkpoint(path).get_tensor(name)
            np.testing.assert_array_equal(found, expected * step // steps, err_msg=f"{name} at step {step}")
    assert run.value("global_step") == steps


@pytest.mark.long
def test_a_ps_that_is_killed_while_the_chief_ends_the_job_and_comes_back_ends_well_too(processes: Processes) -> None:
    """Slow ends the training for 4 s, after its last checkpoint."""
    flags = ("--model=tests.support.models.small:SlowEnd", "--max_steps=200", "--batch_size=1", "--log_secs=0.1")
    cluster = TestCluster(processes, 2, 1, *flags)
    servers, (chief,) = cluster.start_all()
    chief.wait_for("the end begins", 90)
    servers[1].kill()
    time.sleep(5)  # beyond the end
    servers[1] = cluster.start("ps", 1)
    for process in (chief, *servers):
        assert process.wait(90) == 0, process.output
    assert json.loads((cluster.model_dir / "result.json").read_text())["global_step"] == 200
