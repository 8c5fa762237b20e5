"""Workers that wait for the end score shares of the test data; one that cannot is no reason for another result."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from tests.support.long import long
from tests.support.machine.processes import Processes, TestCluster
from tests.support.models.small import Divided

MEAN_SQUARE = float(np.mean(np.arange(5000.0) ** 2))


def cluster_of(processes: Processes, *flags: str) -> TestCluster:
    model = "--model=tests.support.models.small:Scored"
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


@pytest.mark.long
def test_metrics_of_slices_are_in_the_result_and_in_the_report(processes: Processes) -> None:
    flags = ("--max_steps=10", "--verbose", "--eval_by=country")
    cluster = TestCluster(processes, 1, 2, "--model=tests.support.models.small:Divided", *flags)
    servers, workers = cluster.start_all()
    for process in (*servers, *workers):
        assert process.wait(120) == 0, process.output
    assert "shard 1 of 2 of the test data is scored" in workers[1].output
    result = json.loads((cluster.model_dir / "result.json").read_text())
    features = Divided().data("test", "").features
    slices = result["slices"]["country"]
    assert list(slices) == ["nowhere", "fr", "de", "\N{LATIN SMALL LETTER E WITH ACUTE}\\n", "us"]
    for name, found in slices.items():
        x = features["x"][features["country"] == name.replace("\\n", "\n")]
        assert found["examples"] == len(x)
        assert found["mean"] == pytest.approx(x.mean(), abs=1e-5) and found["largest"] == x.max()
    assert result["metrics"].keys() == {"mean", "largest", "grouped_auc"}
    assert f"test country=us: examples {slices['us']['examples']:.4f}" in workers[0].output
    assert '"field": "country"' in (cluster.model_dir / "report.html").read_text()


@pytest.mark.parametrize(
    ("model", "field", "text"),
    [
        ("Divided", "contry", "eval_by=contry (from the command line): there is no such feature; use one of country"),
        long("Divided", "x", "it is a feature of float32 and shape (None,)"),
        long("UsesAnotherTensor", "country", "metric mean uses a tensor that is not among the arguments of metrics()"),
        long("Linear", "country", "eval_by=country (from the command line) needs metrics of a test split, but"),
    ],
)
def test_what_cannot_be_divided_is_refused_before_any_step(
    processes: Processes, model: str, field: str, text: str
) -> None:
    run = processes.run(
        f"--model=tests.support.models.small:{model}", "--max_steps=5", f"--eval_by={field}", "--model_dir=m"
    )
    assert run.wait(100) == 2, run.output
    assert text in run.lines[-1], run.output
    assert "step " not in run.output
