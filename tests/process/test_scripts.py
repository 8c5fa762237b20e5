"""Classic programs run as they are: points 87 to 90 of the acceptance, and `examples/mnist_classic.py`."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.support.long import long
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import ROOT, eventually

pytestmark = pytest.mark.timeout(300)

SCRIPTS = pathlib.Path(ROOT) / "tests" / "support" / "compat" / "scripts"
CLUSTER = ["--num_ps=1", "--num_workers=2"]


def run(processes, *arguments):
    return processes.command([sys.executable, "-m", "ps_train", "run", *arguments])


def steps_in(directory):
    path = tf.train.latest_checkpoint(str(directory))
    return int(path.rpartition("-")[2])


def write(directory, text):
    path = directory / "script.py"
    path.write_text(text)
    return str(path)


@pytest.mark.long
def test_point_87_the_tutorials_program_runs_to_its_last_step(processes):
    done = run(processes, *CLUSTER, "--compat", str(SCRIPTS / "softmax_monitored.py"), "--steps=60")
    assert done.wait(200) == 0
    assert "using the digits that ship with ps_train" in done.output
    assert "[ps:0] " in done.output and "the job is over: worker:0 ended, worker:1 ended" in done.output
    assert steps_in(processes.directory / "train_logs") == 60
    assert not done.descendants()
    accuracies = [float(found) for found in re.findall(r"accuracy ([\d.]+)", done.output)]
    assert max(accuracies) > 0.8


@pytest.mark.long
@pytest.mark.parametrize("flags", [long([]), ["--sync_replicas"]], ids=["async", "sync"])
def test_point_87_the_supervised_program_runs(processes, flags):
    done = run(processes, *CLUSTER, "--compat", str(SCRIPTS / "softmax_supervised.py"), "--train_steps=60", *flags)
    assert done.wait(200) == 0
    losses = [float(found) for found in re.findall(r"validation cross entropy = ([\d.]+)", done.output)]
    assert len(losses) == 2
    assert max(losses) < 2.3 * 143 / 2  # half of what equal probabilities give for the 143 validation digits


@pytest.mark.long
def test_point_88_an_estimator_program_of_the_time_of_contrib_runs_as_all_tasks_of_a_cluster(processes):
    flags = ["--num_ps=2", "--num_workers=2", "--chief", "--evaluator", "--compat"]
    done = run(processes, *flags, str(SCRIPTS / "estimator_program.py"))
    assert done.wait(200) == 0, done.output
    assert steps_in(processes.directory / "model") == 200
    assert "trains with TensorFlow's own means" not in done.output and "[chief:0] ps:1 " in done.output
    assert {line.partition("]")[0] for line in done.lines if "is deprecated" in line} == {"[chief:0"}
    evaluated = re.findall(r"global step 200: auc = ([\d.]+)", done.output)
    assert evaluated and float(evaluated[-1]) > 0.65
    names = {name for name, _ in tf.train.list_variables(str(processes.directory / "model"))}
    assert {"dense/kernel", "dense/kernel/Adam", "batch_normalization/moving_mean", "beta1_power"} <= names
    assert "embedding/table" in names and not done.descendants()


@pytest.mark.long
@pytest.mark.parametrize(
    ("network", "way", "name"),
    [
        ("recurrent", "estimator", "net/deep/multi_rnn_cell/cell_0/lstm_cell/kernel/Momentum"),
        long("recurrent", "cluster", "net/bidirectional_rnn/fw/basic_lstm_cell/bias/Momentum"),
        long("layers", "experiment", "net/deep/BatchNorm/moving_variance"),
        long("layers", "cluster", "net/batch_normalization/gamma/Momentum"),
    ],
)
def test_a_network_ends_with_the_weights_of_a_plain_session(processes, network, way, name):
    """Cells and layers of tf-keras, of contrib and of tf-slim."""
    for package in ("tf_keras", "tf_slim"):
        pytest.importorskip(package)
    program = [str(SCRIPTS / "two_networks.py"), f"--network={network}"]
    plain = [*program, "--way=plain", "--model_dir=plain"]
    if network == "recurrent":  # without ps_train
        alone = processes.command([sys.executable, *plain], env={"TF_USE_LEGACY_KERAS": "1"})
    else:
        alone = run(processes, "--compat", *plain)
    done = run(processes, *CLUSTER, "--compat", *program, f"--way={way}")
    assert alone.wait(200) == 0, alone.output
    assert done.wait(200) == 0, done.output
    paths = [tf.train.latest_checkpoint(str(processes.directory / directory)) for directory in ("plain", "model")]
    names = {name for name, _ in tf.train.list_variables(paths[0])}
    assert name in names
    for each in names:
        if way == "cluster" and "moving_" in each:
            continue  # every worker moves the averages, as in TensorFlow 1
        expected, found = (tf.train.load_variable(path, each) for path in paths)
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=each)


@pytest.mark.long
def test_point_87_the_program_with_queues_and_iterators_runs(processes):
    done = run(processes, "--num_ps=2", "--num_workers=2", "--compat", str(SCRIPTS / "queue_input.py"), "--steps=50")
    assert done.wait(200) == 0
    assert steps_in(processes.directory / "train_logs") == 50
    assert {"ps:0 ends", "ps:1 ends"} <= set(re.findall(r"ps:\d ends", done.output))


def test_point_89_each_task_gets_tf_config_and_the_flags_that_the_script_defines(processes, tmp_path):
    text = "import json, os, sys\nnames = ['--job_name', '--task_index', '--ps_hosts', '--worker_hosts']\n"
    text += "config = json.loads(os.environ['TF_CONFIG'])\nprint('found', json.dumps([config, sys.argv[1:]]))\n"
    done = run(processes, "--num_ps=1", "--num_workers=2", write(tmp_path, text), "--own=1")
    assert done.wait(60) == 0
    found = [json.loads(line) for line in re.findall(r"found (.*)", done.output)]
    tasks = {(config["task"]["type"], config["task"]["index"]): flags for config, flags in found}
    assert tasks.keys() == {("ps", 0), ("worker", 0), ("worker", 1)}
    hosts = found[0][0]["cluster"]
    assert tasks["worker", 1] == [
        "--own=1",
        "--job_name=worker",
        "--task_index=1",
        f"--ps_hosts={hosts['ps'][0]}",
        f"--worker_hosts={','.join(hosts['worker'])}",
    ]


@pytest.mark.long
def test_point_89_the_first_failure_is_the_cause_and_ends_all(processes, tmp_path):
    text = "import json, os, sys, threading\ntask = json.loads(os.environ['TF_CONFIG'])['task']\n"
    text += "if task == {'type': 'worker', 'index': 1}:\n"
    text += "    threading.Thread(target=lambda: [print('a thread still prints', n) for n in range(500)]).start()\n"
    text += "    threading.Timer(3, print, ['a thread that delays the end']).start()\n"
    text += "    raise ValueError('no such column')\n"
    text += "if task['type'] == 'ps':\n"  # it fails later and ends earlier
    text += "    threading.Event().wait(1)\n    raise OSError('worker:1 is gone')\n"
    text += "threading.Event().wait()\n"
    done = run(processes, *CLUSTER, write(tmp_path, text))
    assert done.wait(60) == 1
    assert done.lines[-1] == (
        "ps_train: worker:1 failed with exit code 1, and so the job failed: ValueError: no such column "
        "(help: migrate#from-raw-tftrain-scripts)"
    )
    assert not done.descendants()


@pytest.mark.long
def test_point_89_a_ps_that_never_ends_is_ended_after_the_workers(processes, tmp_path):
    text = "import json, os, threading\n"
    text += "if json.loads(os.environ['TF_CONFIG'])['task']['type'] == 'ps':\n    threading.Event().wait()\n"
    done = run(processes, *CLUSTER, write(tmp_path, text))
    assert done.wait(60) == 0
    assert not done.descendants()


@pytest.mark.parametrize("signum", [long(signal.SIGTERM), signal.SIGKILL])
def test_point_89_no_task_outlives_the_launcher(processes, tmp_path, signum):
    text = "import threading\nprint('waits', flush=True)\nthreading.Event().wait()\n"
    done = run(processes, *CLUSTER, write(tmp_path, text))
    eventually(lambda: done.output.count("waits") == 3, 60, "three tasks")
    os.kill(done.pid, signum)
    assert done.wait(30) == (143 if signum == signal.SIGTERM else -9)
    eventually(lambda: not done.descendants(), 10, "the end of all tasks")


@pytest.mark.long
def test_point_90_a_worker_does_not_wait_for_dead_tasks(processes):
    """The second worker comes when the first has ended; it neither waits for it nor 30 s for the model."""
    ports = free_ports(3)
    hosts = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]},127.0.0.1:{ports[2]}"]
    example = [sys.executable, str(pathlib.Path(ROOT) / "examples" / "mnist_classic.py"), *hosts, "--max_steps=20"]
    example.append(f"--train_dir={processes.directory / 'model'}")
    ps = processes.command([*example, "--job_name=ps"])
    first = processes.command([*example, "--job_name=worker"])
    assert first.wait(60) == 0
    second = processes.command([*example, "--job_name=worker", "--task_index=1"])
    assert second.wait(28) == 0
    assert ps.wait(10) == 0
    assert "step 20: test accuracy" in first.output and "test accuracy" not in second.output


@pytest.mark.long
def test_the_classic_example_runs_by_two_shell_lines_and_both_end(processes):
    ports = free_ports(2)
    hosts = [f"--ps_hosts=localhost:{ports[0]}", f"--worker_hosts=localhost:{ports[1]}"]
    example = [sys.executable, str(pathlib.Path(ROOT) / "examples" / "mnist_classic.py"), *hosts]
    example += [f"--train_dir={processes.directory / 'model'}", "--log_device_placement"]
    ps = processes.command([*example, "--job_name=ps"])
    worker = processes.command([*example, "--job_name=worker"])
    assert worker.wait(60) == 0
    assert ps.wait(10) == 0
    accuracy = re.search(r"step 100: test accuracy ([\d.]+)", worker.output)
    assert accuracy is not None and float(accuracy[1]) > 0.85
    assert "/job:ps/replica:0/task:0" in worker.output + ps.output
    assert steps_in(processes.directory / "model") == 100
