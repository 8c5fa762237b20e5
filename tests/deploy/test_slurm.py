"""The batch script of deploy/slurm on a real Slurm of one node: a job to its end, scancel, requeue, exit codes."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.machine.fork_server import ROOT
from tests.support.machine.proc import command_of, marked
from tests.support.machine.processes import Processes, eventually, make_processes
from tests.support.machine.slurm import Slurm, make_slurm

SCRIPT = ROOT / "deploy" / "slurm" / "ps_train.sbatch"
ENDLESS = ("--max_steps=100000000", "--log_secs=0.5")


def test_the_script_is_valid_bash() -> None:
    subprocess.run(["bash", "-n", SCRIPT], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", SCRIPT], check=True)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    yield from make_processes(tmp_path_factory.mktemp("slurm"))


@pytest.fixture(scope="module")
def slurm(processes: Processes) -> Iterator[Slurm]:
    yield from make_slurm(processes.directory, processes)


class BatchJob:
    """A submitted job with its log and its model directory."""

    def __init__(self, slurm: Slurm, *flags: str, sbatch: tuple[str, ...] = (), **env: str) -> None:
        options = ["--ntasks=3", "--cpus-per-task=1", "--mem-per-cpu=1", *sbatch]
        env = {"PS_TRAIN": f"{sys.executable} -m ps_train", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **env}
        env = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2", **env}  # for busy machines
        self._slurm = slurm
        self.number = slurm.submit(*options, str(SCRIPT), "--startup_timeout_secs=100", *flags, **env)
        self.model_dir = slurm.directory / "runs" / self.number

    @property
    def log(self) -> str:
        path = self._slurm.directory / f"ps_train-{self.number}.log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, text: str, within_secs: float = 120) -> None:
        try:
            eventually(lambda: text in self.log, within_secs, f"{text!r} in the log")
        except BaseException:
            print(self.log, self._slurm.logs())
            raise

    def checkpoints(self) -> list[int]:
        return sorted(int(path.stem.rpartition("-")[2]) for path in self.model_dir.glob("model.ckpt-*.index"))

    def wait_for_end_of_processes(self) -> None:
        mark = f"SLURM_JOB_ID={self.number}"
        try:
            eventually(lambda: not marked(mark), 60, "the end of all processes")
        except BaseException:
            print(self.log, [command_of(pid) for pid in marked(mark)])
            raise


@pytest.mark.long
@pytest.mark.timeout(500)
def test_a_job_runs_to_its_end(slurm: Slurm) -> None:
    job = BatchJob(slurm, "--max_steps=200")
    assert slurm.wait_for_state(job.number, "COMPLETED", "FAILED", within_secs=400) == "COMPLETED", job.log
    assert "cluster from Slurm: 1 ps, 2 workers; this process is worker:1" in job.log
    assert json.loads((job.model_dir / "result.json").read_text())["global_step"] == 200
    assert job.log.rstrip().endswith("done")


@pytest.mark.long
@pytest.mark.timeout(500)
def test_scancel_stops_with_a_checkpoint_and_leaves_nothing(slurm: Slurm) -> None:
    job = BatchJob(slurm, *ENDLESS, "--save_secs=1000")
    job.wait_for("  loss ", 200)
    before = job.checkpoints()
    slurm.run("scancel", job.number)
    slurm.wait_for_state(job.number, "CANCELLED", within_secs=60)
    job.wait_for_end_of_processes()
    assert job.checkpoints()[-1] > max(before, default=0), job.log
    assert "requeued" not in job.log and slurm.field(job.number, "JobState") == "CANCELLED"
    assert json.loads((job.model_dir / "status.json").read_text())["state"] == "stopped"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_requeued_job_resumes_from_the_checkpoint_of_its_end(slurm: Slurm) -> None:
    job = BatchJob(slurm, *ENDLESS, "--save_secs=1000")
    job.wait_for("  loss ", 200)
    slurm.run("scontrol", "requeue", job.number)
    job.wait_for(f"job {job.number}, start 2", 200)
    (saved, *_) = reversed(job.checkpoints())
    assert saved > 0, job.log
    job.wait_for(f"training from global step {saved}", 200)
    slurm.run("scancel", job.number)
    job.wait_for_end_of_processes()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_sigterm_before_the_time_limit_saves_and_requeues(slurm: Slurm) -> None:
    job = BatchJob(slurm, *ENDLESS, "--save_secs=1000")
    job.wait_for("  loss ", 200)
    slurm.run("scancel", "--signal=TERM", job.number)  # what --signal=TERM@120 sends: to the tasks, not to the script
    job.wait_for("exit code 143: requeued", 60)
    job.wait_for(f"job {job.number}, start 2", 200)
    job.wait_for("training from global step", 200)
    slurm.run("scancel", job.number)
    job.wait_for_end_of_processes()


@pytest.mark.long
@pytest.mark.timeout(500)
def test_a_wrong_configuration_is_not_requeued(slurm: Slurm) -> None:
    job = BatchJob(slurm, "--model=no.such:Model")
    assert slurm.wait_for_state(job.number, "COMPLETED", "FAILED", within_secs=300) == "FAILED"
    assert slurm.field(job.number, "ExitCode") == "2:0"
    assert job.log.rstrip().endswith("wrong configuration (exit code 2): not started again")


@pytest.mark.long
@pytest.mark.timeout(500)
def test_the_number_of_restarts_is_limited(slurm: Slurm, tmp_path: pathlib.Path) -> None:
    job = BatchJob(slurm, PS_TRAIN="false", MAX_RESTARTS="1")
    assert slurm.wait_for_state(job.number, "FAILED", within_secs=200) == "FAILED"
    assert "start 2" in job.log and "exit code 1 after 2 starts: not started again" in job.log
