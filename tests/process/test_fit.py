"""`ps_train.fit` in scripts, as in a notebook, and as a task of a cluster: its value, its errors and its end."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import textwrap

import pytest

from tests.support.long import long
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Processes, eventually

NET = """
import numpy as np, tensorflow as tf
import tensorflow.compat.v1 as v1
import ps_train

WIDTH = 3

def labels_of(x):
    return x @ np.arange(1, WIDTH + 1, dtype=np.float32)

class Net(ps_train.Model):
    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def data(self, split, data_dir):
        x = np.random.default_rng(7).normal(size=(64, WIDTH)).astype(np.float32)
        return ps_train.Arrays(x, labels_of(x) * self.scale)

    def forward(self, features, training):
        return tf.squeeze(features @ v1.get_variable("w", [WIDTH, 1]), 1)

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.square(outputs - labels))

    def metrics(self, outputs, labels):
        return {"mse": v1.metrics.mean_squared_error(labels, outputs)}
"""

IMPORT = "import ps_train\n"

SHOW = """
import json
def show(result):
    value = [result.task, result.global_step, result.metrics.get("mse"), result.checkpoint]
    print("RESULT " + json.dumps(value), flush=True)
"""


def script(processes: Processes, call: str, source: str = NET, name: str = "users_script.py") -> pathlib.Path:
    path = processes.directory / name
    path.write_text(source + SHOW + textwrap.dedent(call))
    return path


def results(output: str) -> list[list]:
    return [json.loads(line.removeprefix("RESULT ")) for line in output.splitlines() if line.startswith("RESULT ")]


def test_a_script_trains_its_own_class_and_gets_the_result(processes: Processes) -> None:
    path = script(
        processes,
        """
        tf.constant(1.0) + 1.0  # TensorFlow is in use, with its threads
        result = ps_train.fit(Net(scale=2.0), max_steps=300, num_workers=1, optimizer="adam", model_dir="m")
        show(result)
        print("HISTORY", json.dumps(result.history))
        """,
    )
    run = processes.script(path)
    assert run.wait(200) == 0, run.output
    ((task, step, mse, checkpoint),) = results(run.output)
    assert (task, step) == ("local", 300) and 0 < mse < 56.0  # 56 is the error of zeros
    assert checkpoint == str(processes.directory / "m" / "model.ckpt-300") and os.path.exists(checkpoint + ".index")
    assert "trained 300 steps" in run.output and run.descendants() == []
    (history,) = [json.loads(line.partition(" ")[2]) for line in run.lines if line.startswith("HISTORY")]
    assert history.keys() == {"step", "loss", "examples_per_sec", "steps_per_sec", "mse"}
    assert history["step"][-1] == 300 and history["mse"][-1] == mse and history["loss"][-1] > 0


@pytest.mark.long
def test_a_notebook_trains_a_class_of_its_cells_again_and_again(processes: Processes) -> None:
    cells = [
        NET + SHOW,
        "tf.constant(1.0) + 1.0",
        "show(ps_train.fit(Net, max_steps=20, num_workers=1, model_dir='m', quiet=True))",
        "show(ps_train.fit(Net, max_steps=30, num_workers=1, model_dir='m', quiet=True))",
    ]
    kernel = f"names = {{'__name__': '__main__'}}\nfor cell in {cells!r}: exec(compile(cell, '<cell>', 'exec'), names)"
    run = processes.command([sys.executable, "-c", kernel])
    assert run.wait(100) == 0, run.output
    assert [(task, step) for task, step, *_ in results(run.output)] == [("local", 20), ("local", 30)]
    assert "trained" not in run.output


@pytest.mark.long
def test_a_mistake_is_raised_with_its_cause_and_nothing_is_left(processes: Processes) -> None:
    path = script(
        processes,
        """
        class Bad(Net):
            def loss(self, outputs, labels):
                return tf.square(outputs - labels)

        try:
            ps_train.fit(Bad, num_workers=2, model_dir="m")
        except ps_train.ModelError as error:
            print("RAISED", error, flush=True)
        """,
    )
    run = processes.script(path)
    assert run.wait(200) == 0, run.output
    (line,) = [line for line in run.lines if line.startswith("RAISED")]
    assert "loss()" in line and run.output.count("scalar") == line.count("scalar") == 1
    assert "got signal" not in run.output
    assert "Traceback" not in run.output and run.descendants() == []


@pytest.mark.long
def test_an_unguarded_call_in_the_module_of_the_model_is_refused_once(processes: Processes) -> None:
    path = script(processes, "ps_train.fit('users_script:Net', num_workers=1, model_dir='m')")
    run = processes.script(path)
    assert run.wait(200) == 1
    assert 'if __name__ == "__main__":' in run.lines[-1] and "ConfigError" in run.lines[-1], run.output
    assert run.descendants() == []


@pytest.mark.long
@pytest.mark.parametrize("signum", [signal.SIGINT, long(signal.SIGTERM)], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_call_saves_and_leaves_no_process(processes: Processes, signum: int) -> None:
    path = script(
        processes,
        """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored
        try:
            model = "tests.support.models.small:Linear"
            ps_train.fit(model, num_workers=1, max_steps=10**8, model_dir="m", log_secs=0.2)
        except KeyboardInterrupt:
            print("INTERRUPTED")
        """,
        IMPORT,
    )
    run = processes.script(path)
    run.wait_for("step ")
    run.send(signum)
    run.wait(60)
    eventually(lambda: not run.descendants(), 20, "the end of all processes")
    assert list((processes.directory / "m").glob("model.ckpt-*.index"))
    assert ("INTERRUPTED" in run.output) == (signum == signal.SIGINT)  # SIGTERM ends the script itself


@pytest.mark.long
def test_tasks_of_a_cluster_take_part_by_the_environment(processes: Processes) -> None:
    path = script(
        processes, "show(ps_train.fit('tests.support.models.small:Linear', max_steps=200, model_dir='m'))", IMPORT
    )
    ports = free_ports(3)
    hosts = [f"127.0.0.1:{port}" for port in ports]
    cluster = {"ps": hosts[:1], "worker": hosts[1:]}
    tasks = [("ps", 0), ("worker", 0), ("worker", 1)]
    configs = [json.dumps({"cluster": cluster, "task": {"type": name, "index": index}}) for name, index in tasks]
    runs = [processes.script(path, env={"TF_CONFIG": config}) for config in configs]
    assert [run.wait(100) for run in runs] == [0, 0, 0], runs[1].output
    found = [results(run.output)[0] for run in runs]
    assert found[0] == ["ps:0", None, None, ""] and found[2] == ["worker:1", None, None, ""]
    assert found[1][:2] == ["worker:0", 200] and found[1][3].endswith("m/model.ckpt-200")
    assert [run.descendants() for run in runs] == [[], [], []]
