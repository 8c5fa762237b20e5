"""Checkpoints of real jobs: of one global step each; a chief that dies while it holds the pushes lets go of them."""

from __future__ import annotations

import json
import signal
import time

import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.machine.processes import Processes, TestCluster, eventually

COUNTING = ("--model=tests.support.models.small:Counting", "--batch_size=1", "--shuffle_buffer=0", "--log_secs=0.1")


def assert_exact(cluster: TestCluster, least: int) -> None:
    found = checkpoints_in(str(cluster.model_dir))
    assert len(found) >= least
    for step, path in found:
        reader = tf.train.load_checkpoint(path)
        values = {*reader.get_tensor("first"), *reader.get_tensor("second"), float(reader.get_tensor("global_step"))}
        assert values == {float(step)}


@pytest.mark.long
@pytest.mark.parametrize("how", ["--max_snapshot_mib=256", long("--max_snapshot_mib=0")])
def test_every_checkpoint_of_an_asynchronous_job_is_of_one_step(processes: Processes, how: str) -> None:
    cluster = TestCluster(
        processes, 2, 2, *COUNTING, "--max_steps=300", "--save_steps=20", "--keep_checkpoints=100", how
    )
    servers, workers = cluster.start_all()
    for process in (*workers, *servers):
        assert process.wait(80) == 0, process.output
    assert_exact(cluster, least=5)
    save = json.loads((cluster.model_dir / "result.json").read_text())["save"]
    assert save["count"] >= 4 and 0 < save["hold_secs_mean"] <= save["hold_secs_max"] and save["write_secs_mean"] > 0
    assert f"saved {save['count']} checkpoints; saving paused updates for" in workers[0].output
    assert ("they are not copied" in workers[0].output) == (how == "--max_snapshot_mib=0")


@pytest.mark.long
def test_a_chief_that_is_killed_while_it_holds_the_pushes_does_not_stop_the_workers(processes: Processes) -> None:
    cluster = TestCluster(
        processes,
        2,
        2,
        *COUNTING,
        "--max_steps=1500",
        "--save_steps=1",
        "--max_snapshot_mib=0",
        "--heartbeat_timeout_secs=3",
    )
    servers, workers = cluster.start_all()
    eventually(lambda: checkpoints_in(str(cluster.model_dir))[:1] > [(20, "")], 60, "some checkpoints")
    workers[0].send(signal.SIGKILL)
    last = checkpoints_in(str(cluster.model_dir))[0][0]
    time.sleep(2.0)  # the other worker goes on alone
    chief = cluster.start("worker", 0, "--save_steps=100")
    chief.wait_for("the ps still hold the model: training continues at step", 60)
    resumed = int(chief.output.split("training continues at step ")[1].split()[0])
    assert resumed > last + 50
    for process in (chief, workers[1], *servers):
        assert process.wait(90) == 0, process.output
    assert_exact(cluster, least=2)


@pytest.mark.long
def test_all_checkpoints_are_counted_at_the_end(processes: Processes) -> None:
    model_dir = processes.directory / "m"
    run = processes.run("--max_steps=30", "--save_steps=10", "--keep_checkpoints=100", f"--model_dir={model_dir}")
    assert run.wait(60) == 0, run.output
    written = len(list(model_dir.glob("model.ckpt-*.index")))
    assert written >= 2 and (model_dir / "model.ckpt-0.index").exists()
    assert f"saved {written} checkpoints" in run.output, run.output
    assert json.loads((model_dir / "result.json").read_text())["save"]["count"] == written
