"""train_and_evaluate as the tasks of a real cluster: the end of every task, evaluations, exports and early stops."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from ps_train.cluster.membership.run_status import RunState, read_status
from ps_train.observe.progress.eval_events import read_eval_metrics
from tests.support.long import long
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import ROOT, Process, Processes

pytest.importorskip("ps_train.compat.estimator.estimator")

pytestmark = pytest.mark.timeout(300)

PROGRAM = """
import atexit, logging, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, {root!r})
import tensorflow as tf, tensorflow.compat.v1 as v1
from ps_train.compat.estimator import early_stopping
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.estimator.export import build_parsing_serving_input_receiver_fn
from ps_train.compat.estimator.spec.exporter import FinalExporter, LatestExporter
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.estimator.train_and_evaluate import train_and_evaluate
from ps_train.compat.estimator.spec.train_spec import TrainSpec

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
SETTINGS = {settings!r}
atexit.register(print, "exit handlers have run", flush=True)

def model_fn(features, labels, mode):
    weights = v1.get_variable("w", [2, 1], initializer=v1.zeros_initializer())
    outputs = tf.matmul(features["x"], weights)[:, 0]
    if mode == "infer":
        return EstimatorSpec(mode, predictions={{"y": outputs}})
    loss = tf.reduce_mean((outputs - labels) ** 2)
    step = v1.train.GradientDescentOptimizer(0.01).minimize(loss, v1.train.get_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step)

def data(batches):
    return tf.data.Dataset.from_tensors(({{"x": tf.ones([4, 2])}}, tf.ones([4]))).repeat(batches)

config = RunConfig({directory!r}, save_checkpoints_steps=100, engine=SETTINGS["engine"], keep_checkpoint_max=0,
                   job=SETTINGS.get("job"))
estimator = Estimator(model_fn, config=config)
receiver_fn = build_parsing_serving_input_receiver_fn({{"x": tf.io.FixedLenFeature([2], tf.float32)}})
exporters = [LatestExporter("latest", receiver_fn, exports_to_keep=None), FinalExporter("final", receiver_fn)]
hooks = []
if SETTINGS.get("stop_below"):
    hooks = [early_stopping.stop_if_lower_hook(estimator, "loss", SETTINGS["stop_below"], run_every_secs=0.2)]
try:
    result = train_and_evaluate(
        estimator,
        TrainSpec(lambda: data(SETTINGS.get("batches")), max_steps=SETTINGS.get("max_steps"), hooks=hooks),
        EvalSpec(lambda: data(2), steps=None, exporters=exporters, start_delay_secs=0, throttle_secs=0),
    )
except Exception as error:
    print("caught:", error)
    raise
print("result:", result, flush=True)
"""


class Job:
    """A cluster of real processes that run PROGRAM."""

    def __init__(
        self,
        processes: Processes,
        directory: pathlib.Path,
        tasks: Sequence[str],
        engine: str = "tensorflow",
        **settings: object,
    ) -> None:
        hosts = [f"127.0.0.1:{port}" for port in free_ports(len(tasks))]
        self.cluster: dict[str, list[str]] = {}
        for name, host in zip(tasks, hosts, strict=True):
            self.cluster.setdefault(name, []).append(host)
        self.model_dir = directory / "model"
        self._program, self._processes = directory / "program.py", processes
        self._program.write_text(
            PROGRAM.format(root=str(ROOT), settings={"engine": engine, **settings}, directory=str(self.model_dir))
        )

    def start(self, name: str, index: int = 0) -> Process:
        task = {"cluster": self.cluster, "task": {"type": name, "index": index}}
        return self._processes.script(self._program, env={"TF_CONFIG": json.dumps(task)})

    def start_all(self) -> list[Process]:
        return [self.start(name, i) for name, hosts in self.cluster.items() for i in range(len(hosts))]

    @property
    def saved_step(self) -> int:
        return int(tf.train.load_variable(str(self.model_dir), "global_step"))

    def exports(self, name: str) -> int:
        """The number of exports of an exporter."""
        directory = self.model_dir / "export" / name
        return len([path for path in directory.glob("*") if re.fullmatch(r"\d{10}", path.name)])

    @property
    def evaluated(self) -> list[int]:
        return list(read_eval_metrics(str(self.model_dir / "eval")))


def ended_well(processes: Sequence[Process]) -> None:
    for process in processes:
        assert process.wait(200) == 0, process.output
        is_ps = "ps:0 serves on" in process.output  # where the program ends in train_and_evaluate
        assert process.lines[-1] == "exit handlers have run"
        assert ("result: None" in process.lines) != is_ps and "caught:" not in process.output


@pytest.mark.parametrize("engine", [long("tensorflow"), "ps_train"])
def test_point_29_and_36_all_tasks_end_at_max_steps_with_a_final_export(processes, tmp_path, engine):
    job = Job(processes, tmp_path, ["chief", "worker", "ps"], engine, max_steps=450)
    evaluator = job.start("evaluator")
    ended_well([*job.start_all(), evaluator])
    assert job.saved_step == 450 == job.evaluated[-1]
    assert re.search(r"^INFO:tensorflow:Saving dict for global step 450: .*loss = ", evaluator.output, re.MULTILINE)
    assert job.exports("final") == 1 and job.exports("latest") == len(job.evaluated)
    assert read_status(str(job.model_dir)).status.state == RunState.DONE


@pytest.mark.long
def test_point_31_and_32_a_job_that_is_started_again_at_its_end_only_evaluates(processes, tmp_path):
    job = Job(processes, tmp_path, ["chief", "ps"], max_steps=50)
    ended_well(job.start_all())
    assert job.saved_step == 50 and job.evaluated == []
    ended_well([*job.start_all(), job.start("evaluator")])
    assert job.saved_step == 50
    assert job.evaluated == [50] and job.exports("final") == 1


@pytest.mark.long
def test_point_37_and_65_all_tasks_end_with_the_input(processes, tmp_path):
    job = Job(processes, tmp_path, ["worker", "worker", "ps"], batches=130)
    ended_well([*job.start_all(), job.start("evaluator")])
    assert job.saved_step == 260 == job.evaluated[-1] and job.exports("final") == 1


@pytest.mark.long
@pytest.mark.parametrize("engine", [long("tensorflow"), "ps_train"])
def test_point_85_the_chief_stops_all_workers_early(processes, tmp_path, engine):
    job = Job(processes, tmp_path, ["worker", "worker", "ps"], engine, stop_below=0.5)
    workers = [job.start("worker", index) for index in range(2)]
    ended_well([*workers, job.start("ps"), job.start("evaluator")])
    assert "training stops early because of loss" in workers[0].output
    assert job.evaluated[-1] == job.saved_step and job.exports("final") == 1


@pytest.mark.long
def test_point_39_a_master_evaluates_and_exports(processes, tmp_path):
    job = Job(processes, tmp_path, ["master", "worker", "ps"], max_steps=1000)
    tasks = job.start_all()
    ended_well(tasks)
    assert job.saved_step == 1000 == job.evaluated[-1]
    assert "Saving dict for global step 1000: " in tasks[0].output
    assert len(job.evaluated) > 1 and job.exports("final") == 1


ON_WORKERS = {"ps_on_workers": True, "update": "sync"}


@pytest.mark.long
@pytest.mark.parametrize("tasks", [("chief", "worker"), ("worker", "worker", "worker"), ("worker",)], ids=" ".join)
def test_a_cluster_without_ps_trains_where_the_workers_hold_the_variables(processes, tmp_path, tasks):
    job = Job(processes, tmp_path, tasks, "auto", max_steps=250, job=ON_WORKERS)
    ended = [*job.start_all(), job.start("evaluator")]
    ended_well(ended)
    assert f"holds the variables of ps:{len(tasks) - 1}" in ended[len(tasks) - 1].output
    assert job.saved_step == 250 == job.evaluated[-1] and job.exports("final") == 1
    weight = 0.0  # of both inputs, which are 1, as is the label
    for _ in range(250):
        weight -= 0.01 * 2 * (2 * weight - 1)
    np.testing.assert_allclose(tf.train.load_variable(str(job.model_dir), "w"), np.full([2, 1], weight), rtol=1e-5)
    again = [*job.start_all(), job.start("evaluator")]
    ended_well(again)
    assert job.saved_step == 250


@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "flags", "text"),
    [
        ("auto", None, "ps_hosts is empty (from TF_CONFIG): name at least one ps"),
        ("tensorflow", ON_WORKERS, 'a cluster without ps is not possible with engine="tensorflow"'),
    ],
)
def test_a_cluster_without_ps_that_cannot_train_is_refused_in_one_line(processes, tmp_path, engine, flags, text):
    job = Job(processes, tmp_path, ["worker", "worker"], engine, max_steps=250, job=flags)
    for process in job.start_all():
        assert process.wait(100) == 1 and f"caught: {text}" in process.output, process.output
