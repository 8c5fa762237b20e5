"""A program that is not captured, in a cluster: an exact end, ps that end with the workers, one last checkpoint."""

from __future__ import annotations

import json
import pathlib
import signal

import numpy as np
import pytest
import tensorflow as tf

from tests.support.long import long
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import ROOT, Process, Processes, eventually

pytestmark = pytest.mark.timeout(300)

PROGRAM = """
import logging, os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, {root!r})
import tensorflow as tf, tensorflow.compat.v1 as v1
from ps_train.compat.capture.captured_training import serve
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.run_config import RunConfig

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
SETTINGS = {settings!r}

class Count(v1.train.SessionRunHook):
    steps = 0
    def after_run(self, run_context, run_values):
        Count.steps += 1
        if Count.steps == 3:
            print("three steps", flush=True)
    def end(self, session):
        print("steps made:", Count.steps, flush=True)

class Say(v1.train.SessionRunHook):
    def __init__(self, text):
        self.text = text
    def begin(self):
        print("hook of", self.text, flush=True)

def model_fn(features, labels, mode, config):
    weights = v1.get_variable("w", [2, 1], initializer=v1.zeros_initializer())
    more = v1.get_variable("more", [3], initializer=v1.ones_initializer())
    print("device:", weights.device, more.device)
    loss = tf.reduce_mean((tf.matmul(features, weights)[:, 0] - labels) ** 2) + 0 * tf.reduce_sum(more)
    optimizer = v1.train.GradientDescentOptimizer(0.01)
    hooks = []
    if SETTINGS.get("sync"):
        optimizer = v1.train.SyncReplicasOptimizer(optimizer, SETTINGS["sync"])
        hooks = [optimizer.make_session_run_hook(config.is_chief, num_tokens=0)]
    step = optimizer.minimize(loss, v1.train.get_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step, training_hooks=[Count(), Say("all"), *hooks],
                         training_chief_hooks=[Say("chief")])

def input_fn(config):
    data = tf.data.Dataset.from_tensors((tf.ones([4, 2]), tf.ones([4]))).repeat()
    return data.take(SETTINGS["batches"][config.task_type]) if "batches" in SETTINGS else data

config = RunConfig({directory!r}, save_checkpoints_steps=1000, engine=SETTINGS["engine"], tf_random_seed=1)
if config.task_type == "ps":
    serve(config)
else:
    Estimator(model_fn, config=config).train(input_fn, max_steps=SETTINGS["max_steps"])
print("over", flush=True)
"""


class Job:
    """A cluster of real processes that run PROGRAM."""

    def __init__(self, processes: Processes, directory: pathlib.Path, ps: int = 1, **changes: object) -> None:
        ports, settings = free_ports(ps + 2), {"engine": "tensorflow", **changes}
        hosts = [f"127.0.0.1:{port}" for port in ports]
        self.cluster = {"chief": hosts[:1], "worker": hosts[1:2], "ps": hosts[2:]}
        self.model_dir = directory / "model"
        self._program = directory / "program.py"
        self._program.write_text(PROGRAM.format(root=str(ROOT), settings=settings, directory=str(self.model_dir)))
        self._processes = processes

    def start(self, name: str, index: int = 0) -> Process:
        task = {"cluster": self.cluster, "task": {"type": name, "index": index}}
        return self._processes.script(self._program, env={"TF_CONFIG": json.dumps(task)})

    def start_all(self) -> list[Process]:
        return [self.start(name, i) for name, hosts in self.cluster.items() for i in range(len(hosts))]

    @property
    def saved_step(self) -> int:
        return int(tf.train.load_variable(str(self.model_dir), "global_step"))

    @property
    def saved_weights(self) -> np.ndarray:
        return tf.train.load_variable(str(self.model_dir), "w")[:, 0]


def steps_made(process: Process) -> int:
    (line,) = [line for line in process.lines if line.startswith("steps made:")]
    return int(line.rpartition(" ")[2])


@pytest.mark.long
@pytest.mark.parametrize("ps", [long(1), 2])
def test_point_30_a_job_ends_at_exactly_max_steps_and_the_ps_ends_too(processes, tmp_path, ps):
    job = Job(processes, tmp_path, ps, max_steps=101)
    chief, worker, *servers = tasks = job.start_all()
    assert [task.wait(200) for task in tasks] == [0] * (2 + ps), chief.output + worker.output
    assert job.saved_step == 101 == steps_made(chief) + steps_made(worker)
    assert {line for line in chief.lines if line.startswith("device:")} == {
        f"device: /job:ps/task:{ps - 1} /job:ps/task:0"
    }
    assert all("over" in server.lines for server in servers)


def hooks_of(process: Process) -> list[str]:
    return [line.removeprefix("hook of ") for line in process.lines if line.startswith("hook of ")]


@pytest.mark.long
def test_point_60_and_68_hooks_of_the_chief_are_its_own_and_synchronous_workers_end(processes, tmp_path):
    job = Job(processes, tmp_path, max_steps=30, sync=2)
    chief, worker, server = tasks = job.start_all()
    assert [task.wait(200) for task in tasks] == [0] * 3, chief.output + worker.output + server.output
    assert (hooks_of(chief), hooks_of(worker)) == (["chief", "all"], ["all"])
    assert job.saved_step in (30, 31)
    weights = np.zeros(2)
    for _ in range(job.saved_step):  # the mean of two equal gradients
        weights -= 0.01 * 2 * (weights.sum() - 1)
    assert job.saved_weights == pytest.approx(weights, rel=1e-5)


@pytest.mark.long
def test_point_31_a_worker_that_starts_after_the_end_trains_nothing(processes, tmp_path):
    job = Job(processes, tmp_path, max_steps=20)
    chief, server = job.start("chief"), job.start("ps")
    assert chief.wait(200) == 0 and server.process.poll() is None  # the ps still waits for the worker
    worker = job.start("worker")
    assert worker.wait(200) == 0 and "Skipping training: global step 20" in worker.output
    assert job.saved_step == 20


@pytest.mark.long
def test_point_65_the_end_of_one_input_does_not_end_the_others(processes, tmp_path):
    job = Job(processes, tmp_path, max_steps=None, batches={"chief": 600, "worker": 7})
    chief, worker, server = tasks = job.start_all()
    assert [task.wait(200) for task in tasks] == [0] * 3, server.output
    assert (steps_made(chief), steps_made(worker), job.saved_step) == (600, 7, 607)


@pytest.mark.long
def test_a_worker_that_is_killed_does_not_keep_the_others_from_the_exact_end(processes, tmp_path):
    job = Job(processes, tmp_path, max_steps=300)
    chief, worker, _ = job.start_all()
    worker.wait_for("three steps")
    worker.send(signal.SIGKILL)
    assert chief.wait(200) == 0 and job.saved_step == 300


@pytest.mark.long
def test_a_ps_that_is_killed_and_started_again_costs_the_steps_since_the_newest_checkpoint(processes, tmp_path):
    job = Job(processes, tmp_path, max_steps=2500)
    chief, worker, server = job.start_all()
    # The chief saves at its first step at or after a multiple of 1000.
    eventually(lambda: list(job.model_dir.glob("model.ckpt-1???.index")), 100)
    server.send(signal.SIGKILL)
    server.wait(20)
    again = job.start("ps")
    assert [task.wait(200) for task in (chief, worker, again)] == [0] * 3, chief.output + worker.output
    assert job.saved_step == 2500
    (line,) = [line for line in chief.lines if line.startswith("a ps has lost the model")]
    assert int(line.rpartition(" ")[2]) % 1000 < 100, line
