"""Programs of TensorFlow 1 behave as they did; each row of the table is a habit of such programs.

A run of a program shows several rows, since a cluster takes seconds to start.

| habit | program |
|---|---|
| sizes of layers as texts | raw.py |
| a global step that the script makes itself | raw.py |
| calls that never returned on a ps: `join`, `train_and_evaluate` | raw.py, estimators.py |
| work on other workers | in_graph.py, estimators.py |
| flags that absl owns | flags.py |
| a module in the place of a script | raw.py |
| a chief with the name `master`, and no chief at all | in_graph.py, of_a_master.py |
| a regularizer that returns None | raw.py |
| an import of ps_train itself | raw.py |
| TensorFlow's own StopAtStepHook | raw.py |
| data that end at different times | raw.py |
| numbers as flags in a RunConfig | estimators.py |
| a Saver over the variables of a model_fn, hooks that end together | estimators.py |
| a wide and deep model of 39 columns on TensorFlow's engine | wide_and_deep.py |

Shared embeddings of sequences are in tests/unit/compat/tf1/test_contrib_sequences.py, and the cause of a failure in
test_scripts.py.
"""

from __future__ import annotations

import re
import sys

import pytest
import tensorflow as tf

from tests.process.programs import sizes
from tests.support.long import long
from tests.support.machine.processes import ROOT

pytestmark = pytest.mark.timeout(300)


def run(processes, *arguments, code=0):
    """Runs a program of the folder `programs` as a cluster; returns it when it has ended."""
    command = [sys.executable, "-m", "ps_train", "run", "--compat", "--num_ps=1", "--num_workers=2", *arguments]
    done = processes.command(command, cwd=ROOT)
    assert done.wait(200) == code, done.output
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


@pytest.mark.long
def test_a_client_that_places_work_on_other_tasks(processes):
    done = run(processes, "--chief=master", "tests/process/programs/in_graph.py")
    assert "total 18" in done.output and done.output.count("client is master") == 1 == done.output.count("client is")
    (devices,) = [line for line in done.lines if "ran on" in line]
    assert "/job:worker/replica:0/task:0" in devices and "/job:ps/replica:0/task:0" in devices


@pytest.mark.parametrize("elsewhere", [long(True), False])
def test_an_estimator_program(processes, tmp_path, elsewhere):
    flags = [f"--model_dir={tmp_path}", *(["--elsewhere"] if elsewhere else [])]
    done = run(processes, "--chief", "tests/process/programs/estimators.py", *flags)
    assert numbers(done, "evaluated by") == {"chief:0": 80} and "caught" not in done.output
    reason = "because it places work on /job:worker/task:0"
    assert (reason in done.output) == elsewhere and done.output.count("left together") == (0 if elsewhere else 2)
    assert ("own means" in done.output) == elsewhere and len(list(tmp_path.glob("model.ckpt-*.index"))) == 2


@pytest.mark.long
def test_a_cluster_whose_chief_has_a_name_that_the_script_does_not_know(processes):
    done = run(processes, "--chief", "tests/process/programs/of_a_master.py", code=2)
    assert done.lines[-1].startswith(
        "ps_train: worker:0 failed with exit code 2, and so the job failed: worker:0 waits"
    )
    assert "that no task makes: chief:0 has ended; one task must be the chief" in done.lines[-1]
    way = "as with `python -m ps_train run --chief=master`."
    assert done.lines[-1].endswith(f"{way} (help: migrate#from-raw-tftrain-scripts)")


@pytest.mark.long
def test_a_wide_and_deep_model(processes, tmp_path):
    pytest.importorskip("tf_keras")
    run(processes, "tests/process/programs/wide_and_deep.py", f"--model_dir={tmp_path}")
    saved = tf.train.load_checkpoint(str(tmp_path))
    assert saved.get_tensor("global_step") == 10
    assert len([name for name in saved.get_variable_to_shape_map() if name.endswith("/weights")]) == 39
