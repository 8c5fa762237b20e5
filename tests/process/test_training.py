"""Whole jobs: they end by themselves at exactly max_steps, and leave what they promise."""

from __future__ import annotations

import gzip
import json
import pathlib
import struct
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.support.long import long
from tests.support.machine.processes import Process, Processes, TestCluster, eventually


def result_of(directory: pathlib.Path) -> dict:
    return json.loads((directory / "result.json").read_text())


def check_default_run(run: Process, directory: pathlib.Path, update: str) -> None:
    assert run.wait(110) == 0, run.output
    assert "ps:0  " in run.output and "hidden1/weights" in run.output
    assert f"checkpoint {directory}/model.ckpt-2000" in run.output
    result = result_of(directory)
    assert result["global_step"] == 2000 and result["update"] == update
    assert result["metrics"]["accuracy"] >= 0.96 and f"test accuracy {result['metrics']['accuracy']:.4f}" in run.output
    assert result["examples"] == 2000 * 32 * (2 if update == "sync" else 1)
    assert result["steps_per_sec"] == pytest.approx(2000 / result["wall_secs"], rel=0.01)
    assert result["examples_per_sec"] == pytest.approx(result["examples"] / result["wall_secs"], rel=0.01)
    assert ("waiting" in result) == (update != "async")
    assert ("staleness" in result) == (update != "sync")
    if update != "sync":
        stale = result["staleness"]
        assert sum(stale["histogram"].values()) == 2000 and 0 <= stale["mean"] <= stale["max"]
        assert set(stale["per_worker"]) == {"worker:0", "worker:1"} and "staleness " in run.output
    assert len(result["cluster"]["worker"]) == 2 and len(result["cluster"]["ps"]) == 1


@pytest.mark.parametrize("update", ["async", long("bounded"), long("sync")])
def test_the_default_job_reaches_its_accuracy_and_writes_its_result(processes: Processes, update: str) -> None:
    directory = processes.directory / "model"
    check_default_run(processes.run(f"--update={update}", f"--model_dir={directory}"), directory, update)
    assert tf.train.load_checkpoint(str(directory)).get_tensor("global_step") == 2000
    tags = events_in(directory)
    assert {"loss", "global_steps_per_sec", "examples_per_sec"} <= tags
    names = ("all", "worker:0", "worker:1")
    stale = {f"staleness/{what}/{name}" for what in ("mean", "p95", "histogram") for name in names}
    assert tags & stale == (set() if update == "sync" else stale)
    waiting = {f"waiting/{name}" for name in names}
    assert tags & waiting == (set() if update == "async" else waiting)
    assert len(list(directory.glob("events.out.tfevents.*"))) == 1, "only the chief writes event files"


def events_in(directory: pathlib.Path) -> set[str]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(directory))
    accumulator.Reload()
    return {*accumulator.Tags()["scalars"], *accumulator.Tags()["histograms"]}


@pytest.mark.parametrize(("workers", "update"), [long(1, "async"), (2, "async"), long(3, "sync")])
def test_the_last_global_step_is_exactly_max_steps(processes: Processes, workers: int, update: str) -> None:
    directory = processes.directory / "model"
    run = processes.run(
        "--max_steps=203", "--num_ps=2", f"--num_workers={workers}", f"--update={update}", f"--model_dir={directory}"
    )
    assert run.wait(110) == 0, run.output
    assert result_of(directory)["global_step"] == 203
    assert tf.train.load_checkpoint(str(directory)).get_tensor("global_step") == 203
    assert result_of(directory)["examples"] == 203 * 32 * (workers if update == "sync" else 1)


@pytest.mark.timeout(300)
def test_a_killed_job_resumes_from_its_checkpoint_with_other_numbers_of_ps_and_workers(processes: Processes) -> None:
    directory = processes.directory / "model"
    common = ["--model=tests.support.models.small:Linear", "--batch_size=4", "--optimizer=adam", "--log_secs=0.2"]
    common.append(f"--model_dir={directory}")
    first = processes.run(*common, "--max_steps=100000000", "--save_steps=100", "--num_ps=2", "--num_workers=1")

    def listed() -> list[str]:
        state = tf.train.get_checkpoint_state(str(directory))
        return list(state.all_model_checkpoint_paths) if state is not None else []

    eventually(lambda: len(listed()) >= 4, 60, "the fourth checkpoint")
    first.kill()
    newest = pathlib.Path(listed()[-1]).name
    step = int(newest.rpartition("-")[2])
    parts = sorted(directory.glob(f"{newest}.data-*"))  # one of each ps that writes its own, and the chief's
    largest = max(parts, key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:8])  # as if the disk had been full
    last = step + 150
    second = processes.run(*common, f"--max_steps={last}", "--num_ps=1", "--num_workers=2")
    assert second.wait(120) == 0, second.output
    assert "damaged" in second.output and newest in second.output
    resumed = int(second.output.split("resumed from")[1].split("at step ")[1].split()[0])
    assert 0 < resumed < step
    result = result_of(directory)
    assert (result["global_step"], result["examples"]) == (last, last * 4)
    rate = (last - resumed) / result["wall_secs"]  # of this run only
    assert result["steps_per_sec"] == pytest.approx(rate, rel=0.01)
    assert result["examples_per_sec"] == pytest.approx(rate * 4, rel=0.01)
    assert len(list(directory.glob("model.ckpt-*.index"))) <= 5
    (directory / "result.json").unlink()  # as if it had been stopped between its last checkpoint and its result
    again = processes.run(*common, f"--max_steps={last}", "--num_ps=3", "--num_workers=1", "--update=sync")
    assert again.wait(120) == 0, again.output
    assert f"finished already, at step {last}" in again.output
    assert result_of(directory)["global_step"] == last


@pytest.mark.long
@pytest.mark.parametrize("update", [long("async"), "sync"])
def test_input_that_ends_early_on_one_worker_does_not_end_the_job(processes: Processes, update: str) -> None:
    cluster = TestCluster(
        processes, 1, 2, f"--update={update}", "--model=tests.support.models.small:Linear", "--batch_size=4"
    )
    cluster.flags.append("--model_arg=count=800")
    ps = cluster.start("ps", 0)
    workers = [cluster.start("worker", 0, "--epochs=3"), cluster.start("worker", 1, "--epochs=1")]
    assert [worker.wait(60) for worker in workers] == [0, 0], workers[0].output
    assert ps.wait(10) == 0
    steps = 300 if update == "sync" else 400  # 400 examples each: 100 batches an epoch
    assert result_of(cluster.model_dir)["global_step"] == steps
    assert result_of(cluster.model_dir)["examples"] == 400 * 3 + 400
    assert f"all input ended at step {steps} of 2000" in workers[0].output
    assert "worker:1: input ended" in workers[1].output


def test_a_named_chief_trains_and_an_evaluator_scores_the_last_checkpoint(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2, "--max_steps=100")
    chief_host = cluster.worker_hosts.pop()
    cluster.flags += [f"--worker_hosts={cluster.worker_hosts[0]}", f"--chief_hosts={chief_host}"]
    flags = [f"--model_dir={cluster.model_dir}"]
    evaluator = processes.run("--job_name=evaluator", "--max_steps=100", *flags)
    ps, worker = cluster.start("ps", 0), cluster.start("worker", 0)
    chief = processes.run(*cluster.flags, "--job_name=chief", *flags)
    assert [process.wait(60) for process in (chief, worker, ps, evaluator)] == [0, 0, 0, 0], chief.output
    accuracy = result_of(cluster.model_dir)["metrics"]["accuracy"]
    assert f"evaluation at step 100: accuracy {accuracy:.4f}" in evaluator.output


@pytest.mark.long
def test_the_other_workers_begin_within_two_seconds_of_the_initialisation(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2, "--max_steps=100000000", "--log_secs=0.2", "--verbose")
    ps = cluster.start("ps", 0)
    worker = cluster.start("worker", 1)
    worker.wait_for("waiting for the chief")
    chief = cluster.start("worker", 0)
    times: dict[str, float] = {}

    def both_seen() -> bool:
        for name, process in (("initialized in", chief), ("first step at", worker)):
            if name not in times and name in process.output:
                times[name] = time.monotonic()
        return len(times) == 2

    eventually(both_seen, 60, "the first step of worker 1")
    late = times["first step at"] - times["initialized in"]
    print(f"worker 1 began {late:.2f}s after the model was ready")
    assert late <= 2.0
    assert ps.process.poll() is None


@pytest.mark.long
def test_a_ps_needs_no_disk_of_the_chief(processes: Processes) -> None:
    """The ps runs in another directory, and what it sees at model_dir is an empty disk that cannot be written to."""
    directory = processes.directory / "model"
    directory.mkdir()
    elsewhere = processes.directory / "elsewhere"
    elsewhere.mkdir()
    cluster = TestCluster(processes, 2, 1, "--max_steps=60")
    own = "mount -t tmpfs -o ro tmpfs " + str(directory)
    servers = []
    for index in range(2):
        command = [sys.executable, "-m", "ps_train", *cluster.flags, "--job_name=ps", f"--task_index={index}"]
        shell = ["unshare", "--mount", "sh", "-c", f'{own} && exec "$@"', "sh", *command]
        servers.append(processes.command(shell, cwd=elsewhere))
    for server in servers:
        eventually(lambda server=server: "serves" in server.output or server.process.poll() is not None, 30)
        if "unshare" in server.output or "mount:" in server.output:
            pytest.skip(f"mount namespaces are not allowed here: {server.output}")
    worker = processes.run(*cluster.flags, "--job_name=worker", "--task_index=0", "--model_dir=model")
    assert worker.wait(60) == 0, worker.output
    assert f"checkpoint {directory}/model.ckpt-60" in worker.output, "model_dir is made absolute"
    reader = tf.train.load_checkpoint(str(directory))
    for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)
    assert reader.get_variable_to_shape_map()["hidden1/weights"] == [64, 256]
    assert [server.wait(10) for server in servers] == [0, 0]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.long
def test_mnist_files_train_the_softmax_regression(processes: Processes) -> None:
    random = np.random.default_rng(3)
    for prefix, count in (("train", 300), ("t10k", 60)):
        labels = random.integers(0, 10, count).astype(np.uint8)
        images = random.integers(0, 50, (count, 28, 28)).astype(np.uint8)
        images[np.arange(count), labels] += 200  # row k is bright in the image of a k
        header = bytes([0, 0, 8, 3]) + struct.pack(">III", count, 28, 28)
        images_file = processes.directory / f"{prefix}-images-idx3-ubyte.gz"
        images_file.write_bytes(gzip.compress(header + images.tobytes()))
        labels_file = processes.directory / f"{prefix}-labels-idx1-ubyte"
        labels_file.write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", count) + labels.tobytes())
    run = processes.run(
        "--model=ps_train.models.mnist:Softmax", f"--data_dir={processes.directory}", "--max_steps=300",
        f"--model_dir={processes.directory}/m",
    )  # fmt: skip
    assert run.wait(110) == 0, run.output
    assert result_of(processes.directory / "m")["metrics"]["accuracy"] > 0.95


@pytest.mark.long
def test_a_worker_that_comes_when_all_is_done_does_not_keep_a_local_cluster(processes: Processes) -> None:
    directory = processes.directory / "m"
    run = processes.run(
        "--model=tests.support.models.small:Late",
        "--max_steps=20",
        f"--model_dir={directory}",
        "--startup_timeout_secs=50",
    )
    assert run.wait(40) == 0, run.output
    assert result_of(directory)["global_step"] == 20
