"""Experiment trackers: a real MLflow server, W&B offline, TensorBoard's reader; servers that hang, and that are down.

MLflow's server needs the whole package `mlflow`, whose requirements contradict those of the extra `dev`.  It may be in
an environment of its own: PS_TRAIN_TEST_MLFLOW is the path of its program `mlflow`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest
import tensorflow.compat.v1 as v1
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from ps_train.base.extras import install
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Process, Processes, eventually

SERVER = os.environ.get("PS_TRAIN_TEST_MLFLOW") or shutil.which("mlflow")
needs_mlflow = pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow-skinny is not installed")
needs_server = pytest.mark.skipif(
    SERVER is None or importlib.util.find_spec("mlflow") is None,
    reason="needs mlflow-skinny, and the program mlflow (PS_TRAIN_TEST_MLFLOW)",
)
needs_wandb = pytest.mark.skipif(
    getattr(importlib.util.find_spec("wandb"), "origin", None) is None, reason="wandb is not installed"
)
KEY = "0" * 40


NET = """
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tests.support.models.small import Linear

class Net(Linear):
    def metrics(self, outputs, labels):
        return {"mse": v1.metrics.mean_squared_error(labels, outputs)}
"""


def job(processes: Processes, *flags: str, env: dict[str, str] | None = None) -> Process:
    (processes.directory / "net.py").write_text(NET)
    always = ("--model=net:Net", "--num_workers=1", "--log_secs=0.2", "--model_dir=m")
    return processes.run(*always, *flags, env=env)


def warnings_of(run: Process) -> list[str]:
    return [line for line in run.lines if "track=" in line]


def test_tensorboard_gets_the_hyperparameters_and_the_end_of_the_run(processes: Processes) -> None:
    run = job(processes, "--track=tensorboard-hparams", "--max_steps=60", "--model_arg=width=4", "--learning_rate=0.05")
    assert run.wait(100) == 0, run.output
    (path,) = (processes.directory / "m").glob("events.out.tfevents.*")
    found = [
        HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "hparams"
    ]
    start, end = found
    values = start.session_start_info.hparams
    assert values["learning_rate"].number_value == 0.05 and values["model_arg.width"].string_value == "4"
    assert values["num_workers"].string_value == "1" and "model_dir" not in values
    assert end.session_end_info.status == 1  # STATUS_SUCCESS
    assert warnings_of(run) == []


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory, (port,) = tmp_path_factory.mktemp("mlflow"), free_ports(1)
    command = [
        str(SERVER), "server", "--host=127.0.0.1", f"--port={port}", "--workers=1",
        f"--backend-store-uri=sqlite:///{directory}/db", f"--artifacts-destination={directory}/artifacts",
    ]  # fmt: skip
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MLFLOW"))}
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=1) as answer:
            return answer.status == 200
        return False

    with open(directory / "log", "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environ, start_new_session=True)
        try:
            eventually(answers, 150, "the MLflow server")
            yield address
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def client_of(address: str):
    from mlflow import MlflowClient

    return MlflowClient(address)


def runs_of(address: str, experiment: str) -> list:
    client = client_of(address)
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


@needs_server
@pytest.mark.long
def test_mlflow_has_the_whole_run_and_goes_on_with_it_after_a_kill(processes: Processes, mlflow_server: str) -> None:
    (processes.directory / "job.flags").write_text("--learning_rate=0.05\n")
    environ = {"MLFLOW_TRACKING_URI": mlflow_server, "MLFLOW_EXPERIMENT_NAME": "whole"}
    flags = ["--track=mlflow", "--flagfile=job.flags", "--model_arg=width=4", "--save_steps=20", "--export_dir=e"]
    run = job(processes, *flags, "--max_steps=10000000", "--max_restarts=0", env=environ)
    run.wait_for("track    " + mlflow_server)
    client = client_of(mlflow_server)
    eventually(lambda: runs_of(mlflow_server, "whole")[0].data.metrics.get("loss"), 30, "a loss")
    run.kill()
    eventually(lambda: not run.descendants(), 20, "the end of all processes")
    last = max(int(path.stem.rpartition("-")[2]) for path in (processes.directory / "m").glob("model.ckpt-*.index"))
    run = job(processes, *flags, f"--max_steps={last + 200}", env=environ)
    assert run.wait(150) == 0, run.output
    assert warnings_of(run) == [] and run.descendants() == []
    (found,) = runs_of(mlflow_server, "whole")
    assert found.info.status == "FINISHED" and found.info.run_name == "m"
    parameters, tags, metrics = found.data.params, found.data.tags, found.data.metrics
    assert (parameters["learning_rate"], parameters["model_arg.width"]) == ("0.05", "4")
    assert parameters["max_steps"] == "10000000" and tags["resumed.max_steps"] == str(last + 200)
    assert (tags["source.learning_rate"], tags["source.max_steps"]) == ("job.flags:1", "the command line")
    assert tags["export"].endswith("e/1") and tags["checkpoint"].endswith(f"model.ckpt-{last + 200}")
    assert {"fingerprint.model", "fingerprint.plan", "version.tensorflow"} <= tags.keys()
    result = json.loads((processes.directory / "m" / "result.json").read_text())
    assert metrics["test/mse"] == pytest.approx(result["metrics"]["mse"], rel=1e-5)
    losses = client.get_metric_history(found.info.run_id, "loss")
    assert max(one.step for one in losses) == last + 200 and len(losses) >= 2
    assert losses[-1].value == pytest.approx(result["loss"], rel=1e-5)
    files = [one.path for one in client.list_artifacts(found.info.run_id)]
    assert sorted(files) == ["plan.txt", "report.html"]


@needs_server
@pytest.mark.long
def test_trials_of_a_study_are_nested_runs_and_a_stopped_one_is_killed(
    processes: Processes, mlflow_server: str
) -> None:
    names = {"MLFLOW_TRACKING_URI": mlflow_server, "MLFLOW_EXPERIMENT_NAME": "study"}
    environ = {**names, "PS_TRAIN_TRACK_PARENT": "my study"}
    run = job(processes, "--track=mlflow", "--max_steps=40", env=environ)
    assert run.wait(100) == 0, run.output
    run = job(processes, "--track=mlflow", "--max_steps=10000000", "--model_dir=m2", env=environ)
    run.wait_for("track    ")
    run.send(signal.SIGTERM)
    assert run.wait(60) == 143
    found = {one.info.run_name.rpartition("/")[2]: one for one in runs_of(mlflow_server, "study")}
    assert found.keys() == {"my study", "m", "m2"}
    parent = found["my study"].info.run_id
    assert [found[name].data.tags["mlflow.parentRunId"] for name in ("m", "m2")] == [parent, parent]
    assert (found["m"].info.status, found["m2"].info.status) == ("FINISHED", "KILLED")


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        taken: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(server.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for one in taken:
            one.close()


def environment_of(tracker: str, address: str) -> dict[str, str]:
    if tracker == "mlflow":
        return {"MLFLOW_TRACKING_URI": address}
    return {"WANDB_BASE_URL": address, "WANDB_API_KEY": KEY, "WANDB_MODE": "online"}


TRACKERS = [pytest.param("mlflow", marks=needs_mlflow), pytest.param("wandb", marks=needs_wandb)]


@pytest.mark.long
@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize("is_silent", [True, False], ids=["hangs", "down"])
def test_a_server_that_hangs_or_is_down_costs_one_line_and_few_seconds(
    processes: Processes, tracker: str, is_silent: bool
) -> None:
    with silent_server() if is_silent else contextlib.nullcontext(f"http://127.0.0.1:{free_ports(1)[0]}") as address:
        run = job(processes, f"--track={tracker}", "--max_steps=300", env=environment_of(tracker, address))
        run.wait_for("checkpoint ", 150)
        began = time.monotonic()
        assert run.wait(60) == 0, run.output
        assert time.monotonic() - began < 15.0  # the end itself takes about a second
    assert len(warnings_of(run)) == 1, run.output
    assert "Traceback" not in run.output
    eventually(lambda: not run.descendants(), 20, "the end of all processes")


@needs_wandb
@pytest.mark.long
def test_wandb_writes_the_run_offline(processes: Processes) -> None:
    run = job(processes, "--track=wandb", "--max_steps=60", "--model_arg=width=4", env={"WANDB_MODE": "offline"})
    assert run.wait(150) == 0, run.output
    assert warnings_of(run) == []
    eventually(lambda: not run.descendants(), 20, "the end of all processes")
    (path,) = (processes.directory / "m" / "wandb").glob("offline-run-*/run-*.wandb")
    records = wandb_records(path)
    (begun,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    run_id = (processes.directory / "m" / "run_id").read_text().strip()
    assert begun.run_id == run_id and begun.display_name == "m" and begun.project == "ps_train"
    config = {item.key: json.loads(item.value_json) for item in begun.config.update}
    assert config["model_arg.width"] == "4" and config["tags"]["source.max_steps"] == "the command line"
    rows = [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    result = json.loads((processes.directory / "m" / "result.json").read_text())
    assert rows[-1]["global_step"] == 60 and rows[-1]["test/mse"] == pytest.approx(result["metrics"]["mse"], rel=1e-5)
    assert any("loss" in row and "examples_per_sec" in row for row in rows)
    assert [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"] == [0]
    assert {"plan.txt", "report.html"} <= {one.name for one in path.parent.joinpath("files").iterdir()}


def wandb_records(path: pathlib.Path) -> list:
    """The records of W&B's file of an offline run: LevelDB's log format after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, place, found, begun = path.read_bytes(), 7, [], b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        begun += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, and the last part of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(begun)
            found.append(record)
            begun = b""
    return found


ESTIMATOR = """
    import tensorflow.compat.v1 as v1
    import numpy as np, tensorflow as tf
    from ps_train import estimator

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(tf.square(features["x"] * v1.get_variable("w", [1]) - labels))
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def input_fn():
        x = np.ones([64, 1], np.float32)
        return tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x)).repeat().batch(8)

    config = estimator.RunConfig(model_dir="m", engine="ps_train", job={"track": "TRACK"})
    estimator.Estimator(model_fn, config=config).train(input_fn, max_steps=200)
"""


@pytest.mark.long
@pytest.mark.parametrize("tracker", ["tensorboard-hparams", pytest.param("mlflow", marks=needs_server)])
def test_an_estimator_is_tracked_by_its_run_config(
    processes: Processes, tracker: str, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue("mlflow_server") if tracker == "mlflow" else ""
    path = processes.directory / "program.py"
    path.write_text(textwrap.dedent(ESTIMATOR).replace("TRACK", tracker))
    run = processes.script(path, env={"MLFLOW_TRACKING_URI": address, "MLFLOW_EXPERIMENT_NAME": "estimator"})
    assert run.wait(150) == 0, run.output
    assert warnings_of(run) == []
    if address:
        (found,) = runs_of(address, "estimator")
        assert found.info.status == "FINISHED" and found.data.metrics["loss"] < 9.0
    else:
        assert any(b"hparams" in path.read_bytes() for path in (processes.directory / "m").glob("events.out*"))


@needs_wandb
@pytest.mark.long
def test_a_script_ends_soon_although_wandb_hangs(processes: Processes) -> None:
    path = processes.directory / "program.py"
    path.write_text(textwrap.dedent(ESTIMATOR).replace("TRACK", "wandb") + "print('END OF SCRIPT', flush=True)\n")
    with silent_server() as address:
        run = processes.script(path, env=environment_of("wandb", address))
        run.wait_for("END OF SCRIPT", 150)
        began = time.monotonic()
        assert run.wait(60) == 0, run.output
        assert time.monotonic() - began < 15.0  # W&B's own function at the exit waits for a minute
    assert len(warnings_of(run)) == 1 and "Traceback" not in run.output, run.output


@pytest.mark.long
def test_a_tracker_without_its_package_is_refused_before_anything_starts(processes: Processes) -> None:
    (processes.directory / "wandb").mkdir()  # as W&B leaves one; it is not the package
    code = "import sys, importlib.util as u; f = u.find_spec"
    code += "; u.find_spec = lambda name, *more: None if name == 'wandb' else f(name, *more)"
    code += "; sys.argv = ['ps_train', '--track=wandb', '--model_dir=m']; from ps_train.__main__ import run; run()"
    run = processes.command([sys.executable, "-c", code])
    assert run.wait(60) == 2
    line = (
        f"ps_train: error: track=wandb (from the command line) needs wandb: {install('wandb')}. (help: watch#trackers)"
    )
    assert run.lines == [line] and not (processes.directory / "m").exists()
