"""Whole jobs with encoded messages: they learn, end exactly, and recover."""

from __future__ import annotations

import json
import signal

import pytest

from tests.support.long import long
from tests.support.machine.processes import TestCluster, eventually

pytestmark = pytest.mark.timeout(300)


@pytest.mark.long
@pytest.mark.parametrize(
    ("update", "push", "pull"),
    [
        ("sync", "int8", "bfloat16"),
        long("async", "int8", "int8"),
        long("async", "bfloat16", "bfloat16"),
        long("bounded", "float16", "float16"),
        long("async", "top_k:0.01", "none"),
        long("sync", "top_k:0.01,int8", "bfloat16"),
        long("bounded", "auto", "none"),
    ],
)
@pytest.mark.usual(1)
def test_digits_are_learned_as_well(processes, update, push, pull):
    flags = f"--update={update}", f"--push_codec={push}", f"--pull_codec={pull}", "--max_steps=1200", "--save_steps=400"
    cluster = TestCluster(processes, 2, 2, "--model=ps_train.models.digits:Digits", *flags)
    _, (chief, worker) = cluster.start_all()
    assert (chief.wait(250), worker.wait(60)) == (0, 0), chief.output
    result = json.loads((cluster.model_dir / "result.json").read_text())
    assert result["global_step"] == 1200
    assert result["metrics"]["accuracy"] >= 0.96
    assert (cluster.model_dir / "model.ckpt-1200.index").exists()


@pytest.mark.parametrize("update", [long("sync"), long("async")])
def test_a_lost_ps_is_recovered_from(processes, update):
    flags = f"--update={update}", "--push_codec=top_k:0.05", "--max_steps=1500", "--save_steps=50"
    cluster = TestCluster(processes, 2, 2, "--model=ps_train.models.digits:Digits", *flags)
    (_, lost), (chief, worker) = cluster.start_all()
    eventually(lambda: len(list(cluster.model_dir.glob("model.ckpt-*.index"))) >= 3, 120, "checkpoints")
    lost.send(signal.SIGKILL)
    cluster.start("ps", 1)
    assert (chief.wait(250), worker.wait(60)) == (0, 0), chief.output
    result = json.loads((cluster.model_dir / "result.json").read_text())
    assert result["global_step"] == 1500
    assert result["metrics"]["accuracy"] >= 0.95
