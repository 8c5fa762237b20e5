"""A program with a model_fn trains on the engine as chief, worker and ps."""

from __future__ import annotations

import pathlib

import pytest

from tests.process.test_uncaptured import Job, steps_made
from tests.support.long import long
from tests.support.machine.processes import Processes

pytestmark = pytest.mark.timeout(300)


@pytest.mark.long
@pytest.mark.parametrize("ps", [long(1), 2])
def test_points_29_30_and_60_all_tasks_end_and_hooks_count_exactly_max_steps(
    processes: Processes, tmp_path: pathlib.Path, ps: int
) -> None:
    job = Job(processes, tmp_path, ps, max_steps=101, engine="ps_train")
    chief, worker, *servers = tasks = job.start_all()
    assert [task.wait(200) for task in tasks] == [0] * (2 + ps), chief.output + worker.output
    assert job.saved_step == 101 == steps_made(chief) + steps_made(worker)
    assert all("over" in task.lines for task in (chief, worker, *servers))
    assert any(line.startswith("ps:0  ") for line in chief.lines), chief.output


@pytest.mark.long
def test_point_31_a_worker_that_starts_after_the_end_trains_nothing(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    job = Job(processes, tmp_path, max_steps=20, engine="ps_train")
    chief, server = job.start("chief"), job.start("ps")
    assert (chief.wait(200), server.wait(200)) == (0, 0), chief.output
    worker = job.start("worker")
    assert worker.wait(200) == 0 and "Skipping training: global step 20" in worker.output


@pytest.mark.long
def test_point_32_a_job_that_is_started_again_at_its_end_ends(processes: Processes, tmp_path: pathlib.Path) -> None:
    job = Job(processes, tmp_path, max_steps=20, engine="ps_train")
    for _ in range(2):
        tasks = job.start_all()
        assert [task.wait(200) for task in tasks] == [0] * 3, tasks[0].output
    assert job.saved_step == 20 and "Skipping training" in tasks[0].output


@pytest.mark.long
def test_point_65_the_end_of_one_input_does_not_end_the_others(processes: Processes, tmp_path: pathlib.Path) -> None:
    job = Job(processes, tmp_path, max_steps=None, batches={"chief": 60, "worker": 7}, engine="ps_train")
    chief, worker, server = tasks = job.start_all()
    assert [task.wait(200) for task in tasks] == [0] * 3, server.output
    assert (steps_made(chief), steps_made(worker), job.saved_step) == (60, 7, 67)


@pytest.mark.long
def test_point_68_a_sync_replicas_optimizer_makes_rounds(processes: Processes, tmp_path: pathlib.Path) -> None:
    job = Job(processes, tmp_path, 2, max_steps=40, sync=2, engine="ps_train")
    chief, worker, *_ = tasks = job.start_all()
    assert [task.wait(200) for task in tasks] == [0] * 4, chief.output
    assert job.saved_step == 40 == steps_made(chief) == steps_made(worker)
