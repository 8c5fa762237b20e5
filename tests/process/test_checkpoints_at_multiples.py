"""Checkpoints by steps are at multiples, whatever the update mode, however many workers, and after a resume."""

from __future__ import annotations

import pytest

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.processes import Processes, TestCluster

COUNTING = ("--model=tests.support.models:Counting", "--batch_size=1", "--shuffle_buffer=0", "--keep_checkpoints=100")


@pytest.mark.parametrize(
    "update",
    [
        "--update=async",
        long("--update=bounded --max_steps_ahead=0"),
        long("--update=sync"),
        long("--update=async --sharding=dynamic"),
        "--update=sync --backup_workers=1",
    ],
)
def test_checkpoints_are_at_multiples_with_several_workers(processes: Processes, update: str) -> None:
    cluster = TestCluster(processes, 2, 3, *COUNTING, "--max_steps=137", "--save_steps=30", *update.split())
    servers, workers = cluster.start_all()
    for process in (*workers, *servers):
        assert process.wait(120) == 0, process.output
    steps = sorted(step for step, _ in checkpoints_in(str(cluster.model_dir)))
    assert steps[-1] == 137 and len(steps) > 2 and all(step % 30 == 0 for step in steps[:-1]), steps
