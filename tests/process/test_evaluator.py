"""An evaluator beside real jobs: it ends as they end, however that is."""

from __future__ import annotations

import os
import pathlib
import re
import signal

import pytest

from ps_train.cluster.membership.run_status import read_status
from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.machine.proc import descendants
from tests.support.machine.processes import Process, Processes, TestCluster, eventually

QUICK = ("--log_secs=0.2", "--recovery_timeout_secs=4", "--startup_timeout_secs=40", "--batch_size=8")


def scored(evaluator: Process) -> list[int]:
    return [int(step) for step in re.findall(r"evaluation at step (\d+):", evaluator.output)]


def evaluate(processes: Processes, model_dir: pathlib.Path, *flags: str) -> Process:
    return processes.run("--job_name=evaluator", f"--model_dir={model_dir}", *QUICK, *flags)


@pytest.mark.long
def test_a_job_that_is_stopped_and_resumed_has_its_last_checkpoint_scored_by_evaluators_that_end(
    processes: Processes,
) -> None:
    model_dir = processes.directory / "model"
    early = evaluate(processes, model_dir, "--max_steps=100000000")
    job = processes.run("--num_workers=1", f"--model_dir={model_dir}", "--max_steps=100000000", *QUICK)
    job.wait_for("step ")
    job.send(signal.SIGTERM)
    assert job.wait(20) == 143
    stopped_at = checkpoints_in(str(model_dir))[0][0]
    assert early.wait(40) == 143, early.output
    assert scored(early)[-1] == stopped_at and "stopped by signal 15" in early.lines[-1]

    end = stopped_at + 300
    late = evaluate(processes, model_dir, f"--max_steps={end + 1}")  # it cannot end because of max_steps
    late.wait_for(f"evaluation at step {stopped_at}")
    job = processes.run("--num_workers=1", f"--model_dir={model_dir}", f"--max_steps={end}", *QUICK)
    assert job.wait(60) == 0, job.output
    assert late.wait(40) == 0, late.output
    assert scored(late)[-1] == end


@pytest.mark.long
def test_a_job_whose_processes_are_all_killed_ends_its_evaluator_within_recovery_secs(processes: Processes) -> None:
    model_dir = processes.directory / "model"
    job = processes.run("--num_workers=1", f"--model_dir={model_dir}", "--max_steps=100000000", *QUICK)
    job.wait_for("step ")
    evaluator = evaluate(processes, model_dir, "--max_steps=100000000")
    eventually(lambda: scored(evaluator), 40, "an evaluation")
    for _ in range(4):  # signs of life, two of which the evaluator has seen by then
        before = read_status(str(model_dir))
        eventually(lambda before=before: read_status(str(model_dir)) != before, 40, "a sign of life")
    for pid in (*descendants(job.pid), job.pid):
        os.kill(pid, signal.SIGKILL)
    assert evaluator.wait(25) == 1
    assert "no sign of life" in evaluator.lines[-1] and "Traceback" not in evaluator.output


@pytest.mark.long
def test_an_evaluator_ends_as_a_job_that_fails(processes: Processes) -> None:
    model_dir = processes.directory / "model"
    model = "--model=tests.support.models.small:FailsLater"
    evaluator = evaluate(processes, model_dir, model)
    job = processes.run("--num_workers=1", f"--model_dir={model_dir}", model, *QUICK)
    assert job.wait(40) == 1
    assert evaluator.wait(40) == 1
    assert "InvalidArgumentError: assertion failed: [my own assertion]" in evaluator.lines[-1]


@pytest.mark.long
def test_an_evaluator_of_a_job_with_a_cluster_file_is_no_member_of_the_cluster(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 1, "--max_steps=200", *QUICK)
    file = processes.directory / "cluster.json"
    file.write_text(f'{{"ps": ["{cluster.ps_hosts[0]}"], "worker": ["{cluster.worker_hosts[0]}"]}}')
    cluster.flags = [f"--cluster_file={file}", *(flag for flag in cluster.flags if "_hosts=" not in flag)]
    evaluator = processes.run("--job_name=evaluator", f"--model_dir={cluster.model_dir}", *cluster.flags)
    servers, workers = cluster.start_all()
    assert [process.wait(60) for process in (*workers, *servers, evaluator)] == [0, 0, 0]
    assert scored(evaluator)[-1] == 200


@pytest.mark.parametrize("update", ["async", long("sync")])
def test_a_metric_that_gets_no_better_ends_the_job_and_its_evaluator_with_the_last_checkpoint(
    processes: Processes, update: str
) -> None:
    model_dir = processes.directory / "model"
    flags = (f"--update={update}", "--max_steps=100000000", "--early_stop=-accuracy:2")  # accuracy grows
    evaluator = evaluate(processes, model_dir, *flags)
    job = processes.run("--num_workers=2", f"--model_dir={model_dir}", "--save_secs=1", *QUICK, *flags)
    assert job.wait(90) == 0, job.output
    assert "training ends early (early_stop=-accuracy:2): accuracy: " in job.output
    assert evaluator.wait(40) == 0, evaluator.output
    assert scored(evaluator)[-1] == checkpoints_in(str(model_dir))[0][0] and len(scored(evaluator)) >= 3


@pytest.mark.long
def test_an_early_stop_by_a_metric_that_is_not_there_is_refused(processes: Processes) -> None:
    model_dir = processes.directory / "model"
    flags = ("--max_steps=100000000", "--early_stop=auc:2")
    evaluator = evaluate(processes, model_dir, *flags)
    job = processes.run("--num_workers=1", f"--model_dir={model_dir}", "--save_secs=1", *QUICK, *flags)
    assert job.wait(90) == 2
    assert "early_stop=auc:2: the evaluations have no metric auc: use one of accuracy" in job.output
    assert evaluator.wait(40) == 2, evaluator.output
