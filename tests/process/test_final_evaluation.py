"""Workers that wait for the end score shares of the test data; one that cannot is no reason for another result."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from tests.support.long import long
from tests.support.processes import Processes, TestCluster

MEAN_SQUARE = float(np.mean(np.arange(5000.0) ** 2))


def cluster_of(processes: Processes, *flags: str) -> TestCluster:
    model = "--model=tests.support.models:Scored"
    return TestCluster(processes, 1, 3, model, "--max_steps=20", "--verbose", *flags)


def check_result(cluster: TestCluster) -> None:
    metrics = json.loads((cluster.model_dir / "result.json").read_text())["metrics"]
    assert metrics == {"mean_square": pytest.approx(MEAN_SQUARE, rel=1e-6)}


@pytest.mark.parametrize("update", ["async", long("sync")])
def test_every_worker_scores_a_share(processes: Processes, update: str) -> None:
    cluster = cluster_of(processes, f"--update={update}")
    servers, (chief, *others) = cluster.start_all()
    for process in (*servers, chief, *others):
        assert process.wait(60) == 0, process.output
    scored = sorted(line for worker in others for line in worker.lines if "of the test data is scored" in line)
    assert scored == [f"shard {number} of 3 of the test data is scored" for number in (1, 2)]
    check_result(cluster)


@pytest.mark.long
@pytest.mark.parametrize("trouble", [long("fails"), long("hangs"), "killed"])
def test_the_chief_scores_the_share_of_a_worker_that_does_not(processes: Processes, trouble: str) -> None:
    hangs = "hangs" if trouble == "killed" else trouble
    patience = 60 if trouble == "killed" else 3
    cluster = cluster_of(
        processes, f"--model_arg=trouble={hangs}", f"--finish_timeout_secs={patience}", "--heartbeat_timeout_secs=3"
    )
    (server,), (chief, broken, worker) = cluster.start_all()
    if trouble == "killed":
        worker.wait_for("of the test data is scored", 60)
        broken.send(signal.SIGKILL)
    for process in (server, chief, worker, *([] if trouble == "killed" else [broken])):
        assert process.wait(60) == 0, process.output
    assert "the chief scores the shard of worker:1 too" in chief.output
    check_result(cluster)
