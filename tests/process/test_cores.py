"""Workers of one host run on cores of their own, and what the user chose stays."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest

from tests.support.long import long
from tests.support.machine.proc import task_of
from tests.support.machine.processes import Processes

CORES = os.sched_getaffinity(0)

pytestmark = pytest.mark.skipif(
    len(CORES) < 2 or len(CORES) < (os.cpu_count() or 0), reason="needs all cores of a machine of two or more"
)


def cores_of(pid: int) -> list[set[int]]:
    """Of each thread of a process; some may end meanwhile."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            found.append(os.sched_getaffinity(int(path.name)))
    assert len(found) > 1
    return found


@pytest.mark.parametrize(
    ("environment", "is_bound"), [({}, True), long({"TF_NUM_INTRAOP_THREADS": "1"}, False)], ids=["bound", "chosen"]
)
def test_the_threads_of_each_worker_run_on_its_share_and_those_of_the_ps_anywhere(
    processes: Processes, environment: dict[str, str], is_bound: bool
) -> None:
    run = processes.run(
        "--model=tests.support.models.small:SlowCounting", "--num_ps=1", "--num_workers=2", "--max_steps=10000",
        env=environment,
    )  # fmt: skip
    run.wait_for("step ")
    ps, first, second = (cores_of(task_of(run.pid, task)) for task in ("ps:0", "worker:0", "worker:1"))
    assert all(cores == CORES for cores in ps)
    if is_bound:
        assert all(cores == first[0] for cores in first) and all(cores == second[0] for cores in second)
        assert first[0] | second[0] == CORES and not first[0] & second[0]
    else:
        assert all(cores == CORES for cores in (*first, *second))
