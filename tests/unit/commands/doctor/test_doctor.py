"""The doctor's own flags, and its answers before TensorFlow is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.doctor.doctor import parse_options
from ps_train.commands.doctor.options import Options
from ps_train.config.job import Job


@pytest.mark.parametrize(
    ("arguments", "options", "rest"),
    [
        ([], Options(), []),
        (["--plan_only", "--num_ps=2"], Options(plan_only=True), ["--num_ps=2"]),
        (["--plan_only=false"], Options(), []),
        (["--noplan_only"], Options(), []),
        (["--wait_secs=5", "--model", "a:B"], Options(wait_secs=5.0), ["--model", "a:B"]),
        (["--wait_secs", "7"], Options(wait_secs=7.0), []),
    ],
)
def test_its_own_flags_are_taken_out(arguments, options, rest):
    assert parse_options(arguments) == (options, rest)


@pytest.mark.parametrize("argument", ["--wait_secs=soon", "--wait_secs=-1", "--wait_secs=nan", "--plan_only=maybe"])
def test_a_wrong_value_is_refused(argument):
    with pytest.raises(ConfigError, match="is not valid"):
        parse_options([argument])


def test_it_waits_as_long_as_the_job_but_at_most_a_minute():
    assert Options().wait(Job(startup_timeout_secs=5.0)) == 5
    assert Options().wait(Job(startup_timeout_secs=500.0)) == 60
    assert Options(wait_secs=90.0).wait(Job()) == 90


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--help"], 0, "--plan_only"),
        (["--max_step=3"], 2, "max_steps"),
        (["--nopredict"], 2, "unknown flag 'nopredict'"),
        (["--job_name=worker"], 2, "task_index is not given"),
        (["--wait_secs=soon"], 2, "wait_secs=soon"),
        (["--model_dir=memory://x"], 2, "memory://x"),
        (["--model=no_such_module:Net"], 2, "FAIL  job         model=no_such_module:Net"),
        (["--model_dir=/proc/nothing"], 2, "FAIL  job         model_dir=/proc/nothing"),
        (["--ps_hosts=a:1", "--worker_hosts=b:1", "--job_name=worker", "--task_index=4"], 2, "out of range"),
    ],
)
def test_answers_that_need_no_tensorflow(arguments, code, text):
    command = [sys.executable, "-X", "importtime", "-m", "ps_train", "doctor", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    errors = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert (done.returncode, text in done.stdout + "\n".join(errors)) == (code, True), done.stdout + done.stderr
    assert not any("tensorflow" in line for line in done.stderr.splitlines() if line.startswith("import time:"))
