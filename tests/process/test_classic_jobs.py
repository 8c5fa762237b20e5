"""Jobs of the classic names in real processes: exact steps, exact means, workers that leave or die, ps that end."""

from __future__ import annotations

import pathlib
import re
import signal

import pytest

from tests.support.machine.ports import free_ports
from tests.support.machine.processes import ROOT

pytestmark = pytest.mark.timeout(300)

SCRIPT = str(pathlib.Path(ROOT) / "tests" / "support" / "compat" / "scripts" / "sync_means.py")


def arguments_of(num_workers, last, ending, *rest):
    """The arguments of a ps and its workers."""
    ports = [f"127.0.0.1:{port}" for port in free_ports(1 + num_workers)]
    tasks = [("ps", 0), *(("worker", index) for index in range(num_workers))]
    rest = [ports[0], ",".join(ports[1:]), str(last), ending, *rest]
    return [[job, str(index), *rest] for job, index in tasks]


def start(processes, num_workers, last, ending, *rest):
    """Starts a ps and its workers; returns them."""
    ps, *workers = [
        processes.script(SCRIPT, *arguments) for arguments in arguments_of(num_workers, last, ending, *rest)
    ]
    return ps, workers


def result(worker):
    """Weights, global step and own steps that a worker has printed."""
    found = re.search(r"weights \[(.*)\] step (\d+) own (\d+)", worker.output)
    assert found is not None, worker.output
    return [float(value) for value in found[1].split(",")], int(found[2]), int(found[3])


@pytest.mark.long
def test_asynchronous_training_ends_at_exactly_the_last_step_and_the_ps_end(processes):
    ps, workers = start(processes, 3, 150, "async")
    assert [worker.wait(200) for worker in workers] == [0, 0, 0]
    assert ps.wait(10) == 0
    found = [result(worker) for worker in workers]
    assert {step for _, step, _ in found} == {150}
    assert sum(own for _, _, own in found) == 150
    assert found[0][0] == [3.0 * own for _, _, own in found]


@pytest.mark.long
def test_point_68_each_update_is_the_mean_of_one_gradient_of_each_worker(processes):
    ps, workers = start(processes, 2, 30, "plain")
    assert [worker.wait(200) for worker in workers] == [0, 0]
    assert ps.wait(10) == 0
    assert [result(worker) for worker in workers] == [([30.0, 30.0], 30, 30)] * 2


@pytest.mark.long
def test_synchronous_training_of_one_step_needs_every_worker(processes):
    ps, workers = start(processes, 2, 1, "plain")
    assert [worker.wait(200) for worker in workers] == [0, 0]
    assert ps.wait(10) == 0
    assert [result(worker) for worker in workers] == [([1.0, 1.0], 1, 1)] * 2


@pytest.mark.long
def test_synchronous_training_goes_on_without_a_worker_that_leaves(processes):
    ps, workers = start(processes, 2, 30, "leave")
    assert [worker.wait(200) for worker in workers] == [0, 0]
    assert ps.wait(10) == 0
    weights, step, own = result(workers[0])
    # 5 means of both, and 25 gradients of the first worker alone at the learning rate 2
    assert (weights, step, own) == ([5.0 + 25 * 2.0, 5.0], 30, 30)


def test_synchronous_training_goes_on_without_a_worker_that_dies(processes):
    ps, workers = start(processes, 2, 30, "die")
    assert workers[1].wait(200) == -9
    assert workers[0].wait(150) == 0
    assert ps.wait(60) == 0
    weights, step, _ = result(workers[0])
    assert step == 30 and weights[1] == 5.0


@pytest.mark.long
def test_a_chief_that_is_restarted_goes_on_with_the_model_on_the_ps(processes):
    """There is no checkpoint, and the tickets of the first process are given again."""
    of_ps, arguments = arguments_of(1, 30, "crash")
    ps = processes.script(SCRIPT, *of_ps)
    assert processes.script(SCRIPT, *arguments).wait(200) == -9
    second = processes.script(SCRIPT, *arguments)
    assert second.wait(200) == 0
    assert ps.wait(10) == 0
    assert result(second) == ([30.0], 30, 25)


@pytest.mark.long
def test_a_model_that_is_lost_comes_from_the_checkpoint_with_a_warning(processes):
    of_ps, arguments = arguments_of(1, 200, "async", str(processes.directory / "model"))
    first = processes.script(SCRIPT, *of_ps)
    worker = processes.script(SCRIPT, *arguments)
    worker.wait_for("five steps", 100)
    first.send(signal.SIGKILL)
    second = processes.script(SCRIPT, *of_ps)
    assert worker.wait(200) == 0
    assert second.wait(10) == 0
    weights, step, _ = result(worker)
    assert step == 200 and weights == [200.0]
    assert "a ps has lost the model; training continues from global step" in worker.output


@pytest.mark.long
def test_a_job_whose_workers_fail_has_failed_for_the_ps_too(processes):
    ps, workers = start(processes, 2, 30, "fail")
    assert [worker.wait(200) for worker in workers] == [1, 1]
    assert ps.wait(20) == 1
    assert "the job failed: worker:0 failed, worker:1 failed." in ps.lines[-1]
