"""Programs of TensorFlow 1 behave as they did; each row of the table is a habit of such programs.

A run of a program shows several rows, since a cluster takes seconds to start.
"""

from __future__ import annotations

import re
import sys

import pytest
import tensorflow as tf

from tests.process.programs import sizes
from tests.support.long import long
from tests.support.processes import ROOT

pytestmark = pytest.mark.timeout(300)


def run(processes, *arguments):
    """Runs a program of the folder `programs` as a cluster; returns it when it has ended well."""
    command = [sys.executable, "-m", "ps_train.run", "--compat", "--num_ps=1", "--num_workers=2", *arguments]
    done = processes.command(command, cwd=ROOT)
    assert done.wait(200) == 0, done.output
    return done


def numbers(process, text):
    """Returns the last number of each line that has a text, with the task that printed it."""
    return {line[1 : line.index("]")]: int(line.split()[-1]) for line in process.lines if text in line}


def test_a_raw_script(processes, tmp_path):
    done = run(processes, "-m", "tests.process.programs.raw", f"--log_dir={tmp_path}")
    assert set(re.findall(r"exit handler of (\w+)", done.output)) == {"ps", "worker"}
    assert "[ps:0] trains" not in done.output and "caught" not in done.output
    assert numbers(done, "stopped at") == {"worker:0": sizes.LAST_STEP, "worker:1": sizes.LAST_STEP}
    last = sizes.LAST_STEP + sizes.CHIEFS_BATCHES + sizes.OTHERS_BATCHES
    saved = tf.train.load_checkpoint(str(tmp_path))
    assert (saved.get_tensor("global_step"), saved.get_tensor("updates")) == (last, last)
    assert saved.get_tensor("dense/kernel").shape == (3, 4)


def test_a_client_that_places_work_on_other_tasks(processes):
    done = run(processes, "--chief=master", "tests/process/programs/in_graph.py")
    assert "total 18" in done.output and done.output.count("client is master") == 1 == done.output.count("client is")
    (devices,) = [line for line in done.lines if "ran on" in line]
    assert "/job:worker/replica:0/task:0" in devices and "/job:ps/replica:0/task:0" in devices


@pytest.mark.parametrize("elsewhere", [True, long(False)])
def test_an_estimator_program(processes, tmp_path, elsewhere):
    flags = [f"--model_dir={tmp_path}", *(["--elsewhere"] if elsewhere else [])]
    done = run(processes, "--chief", "tests/process/programs/estimators.py", *flags)
    assert numbers(done, "evaluated by") == {"chief:0": 80} and "caught" not in done.output
    reason = "because it places work on /job:worker/task:0"
    assert (reason in done.output) == elsewhere
