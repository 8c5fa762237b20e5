"""The command line of python -m ps_train launch: commands that are only printed, and mistakes."""

from __future__ import annotations

import io
import shlex

import pytest

from ps_train.base.console import Console
from ps_train.commands.launch.launch import main
from ps_train.config import flags


def launch(*arguments: str) -> tuple[int, list[str], list[str]]:
    out, errors = io.StringIO(), io.StringIO()
    code = main(arguments, Console(out, errors))
    return code, out.getvalue().splitlines(), errors.getvalue().splitlines()


def test_a_dry_run_prints_a_command_for_each_task(tmp_path) -> None:
    (tmp_path / "job.flags").write_text("--max_steps=7 # few\n--model_arg=hidden=3\n")
    code, lines, errors = launch(
        "--hosts=me@a:ps,b:worker*2", "--dry_run", "--port=3000", "--ssh=ssh -p 22", "--python=py", "--cwd=/x y",
        "--env=A=1", "--", f"--flagfile={tmp_path}/job.flags", "--model_dir=~/m",
    )  # fmt: skip
    assert code == 0 and errors == [] and len(lines) == 3
    ssh, _, port, host, command = shlex.split(lines[2])
    assert (ssh, port, host) == ("ssh", "22", "b")
    words = shlex.split(command)
    assert words[:2] == ["cd", "/x y"] and "A=1" in words and "py" in words
    parsed = flags.parse(words[words.index("ps_train.commands.launch.remote") + 2 :], {})
    assert str(parsed.task) == "worker:1"
    assert parsed.job.ps_hosts == ("a:3000",) and parsed.job.worker_hosts == ("b:3000", "b:3001")
    assert parsed.job.max_steps == 7 and parsed.job.model_arg == ("hidden=3",)
    assert parsed.given["model_dir"] == "~/m"  # of the host


def test_flags_of_the_job_may_stand_before_the_dashes_too_and_a_model_dir_is_made_up() -> None:
    code, lines, _ = launch("--max_steps=7", "--hosts", "a:ps,b:worker", "--dry_run")
    assert code == 0 and all("--max_steps=7" in line and "--model_dir=runs/digits-async-" in line for line in lines)


def test_flags_for_the_launcher_are_not_passed_on() -> None:
    _, lines, _ = launch("--hosts=a:ps,b:worker", "--dry_run", "--", "--max_restarts=3", "--inject_fault=kill:ps:0@5")
    assert lines and not any("max_restarts" in line or "inject_fault" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "--hosts"),
        (["--hosts=a:ps"], "no worker"),
        (["--hosts=a:worker*2"], "ps_hosts is empty (from --hosts)"),
        (["--hosts=a:ps,b:worker", "--", "--ps_on_workers"], "ps_hosts=a:2222 (from --hosts) is not possible with ps"),
        (["--hosts=a:ps,b:worker", "--port=0"], "0 is not a whole number of at least 1 and at most 65535"),
        (["--hosts=a:ps,b:worker", "--port=x"], "x is not a whole number"),
        (["--hosts=a:ps,b:worker", "--timeout_secs=nan"], "not a duration"),
        (["--hosts=a:ps,b:worker", "--ssh="], "--ssh is empty"),
        (["--hosts=a:ps,b:worker", "--ssh='"], "--ssh='"),
        (["--hosts=a:ps,b:worker", "--env=1=2"], "--env=1=2"),
        (["--hosts=a:ps,b:worker", "--env=NOT_SET_HERE"], "--env=NOT_SET_HERE"),
        (["--hosts=a:ps,b:worker", "--max_step=3"], "max_steps"),
        (["--hosts=a:ps,b:worker", "--", "--ps_hosts=a:1"], "--ps_hosts has no place"),
        (["--hosts=a:ps,b:worker", "--", "--task_index=1"], "--task_index has no place"),
        (["--hosts=a:ps,b:worker", "--", "--num_workers=1"], "--num_workers has no place"),
        (["--hosts=a:ps,b:worker", "--", "--min_workers=2"], "min_workers=2"),
        (["--hosts=a:ps,b:worker", "--", "--inject_fault=kill:ps:1@5"], "ps:1"),
        (["--hosts=a:ps,b:worker", "--", "positional"], "positional"),
        (["--hosts=a:ps,b:worker", "--", "--log_dir=/etc/passwd"], "log_dir=/etc/passwd cannot be made"),
        (["--hosts=a:ps,b:worker", "--dry_run=maybe"], "dry_run"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], part: str) -> None:
    code, lines, errors = launch(*arguments)
    assert code == 2 and lines == [] and len(errors) == 1
    assert errors[0].startswith("ps_train: error: ") and part in errors[0]
