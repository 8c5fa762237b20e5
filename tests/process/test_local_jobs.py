"""Jobs with local steps, as users start them: their ends, their resumes, and what is not possible."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.support.long import long
from tests.support.machine.processes import Process, Processes

DIGITS = ("--num_ps=1", "--num_workers=2", "--save_secs=0", "--save_steps=1000")


def train(processes: Processes, directory: pathlib.Path, *flags: str) -> tuple[Process, dict]:
    job = processes.run(*DIGITS, f"--model_dir={directory}", *flags)
    assert job.wait(180) == 0, job.output
    return job, json.loads((directory / "result.json").read_text())


@pytest.mark.parametrize(
    "update", ["--update=sync", long("--update=async"), long("--update=bounded"), long("--update=sync --ps_on_workers")]
)
def test_a_job_learns_ends_at_its_step_and_goes_on_with_fresh_slots(
    processes: Processes, tmp_path: pathlib.Path, update: str
) -> None:
    flags = [*update.split(), "--local_steps=8"]
    if "ps_on_workers" in update:
        flags.append("--num_ps=0")
    job, result = train(processes, tmp_path / "run", *flags, "--max_steps=203")
    assert result["global_step"] == 203 and result["metrics"]["accuracy"] > 0.9
    assert result["examples"] == 203 * 32 * (2 if "sync" in update and "async" not in update else 1)
    assert "local 8" in job.output and "rounds" in job.output
    again, result = train(processes, tmp_path / "run", *flags, "--outer_optimizer=nesterov", "--max_steps=250")
    assert result["global_step"] == 250
    assert "at step 203; each worker's own optimizer begins with fresh slots" in again.output


def test_workers_that_end_their_rounds_by_time_make_all_steps(processes: Processes, tmp_path: pathlib.Path) -> None:
    _, result = train(
        processes, tmp_path / "run", "--update=sync", "--local_steps=64", "--round_secs=0.02", "--max_steps=300"
    )
    assert result["global_step"] == 300


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--local_steps=0"], "local_steps=0 (from the command line) is not valid: use a whole number of 1 to"),
        (["--inner_state=fresh"], "inner_state=fresh (from the command line) is for local steps: add --local_steps"),
        (["--local_steps=4", "--prefetch_pulls=1"], "prefetch_pulls=1 (from the command line) is not possible with"),
        (["--local_steps=4", "--outer_optimizer=adam"], "use one of sgd, nesterov, elastic"),
        (["--local_steps=4", "--outer_optimizer_arg=momentum=0.5"], "momentum (from the command line) is not an"),
        (
            ["--local_steps=4", "--outer_optimizer=elastic", "--model=ps_train.models.criteo:WideAndDeep"],
            "outer_optimizer=elastic (from the command line) is not possible with tables (",
        ),
        (
            ["--local_steps=4", "--model=ps_train.models.dcn:Dcn"],
            "local steps are not possible with LazyAdam for table fields: ",
        ),
    ],
)
def test_what_is_not_possible_is_one_line(processes: Processes, flags: list[str], words: str) -> None:
    job = processes.run(*flags, "--num_workers=1", "--max_steps=10")
    assert job.wait(120) == 2, job.output
    assert words in job.output
