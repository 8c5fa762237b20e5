"""The real loop makes exactly the steps of the job in rounds, on a cluster in one process."""

from __future__ import annotations

import functools
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

from ps_train.engine.step.train_step import TrainStep
from ps_train.training.loop.loop import LoopExit
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.clusters.local_rounds import Descent, LocalRounds, Sgd, batches_for
from tests.support.clusters.loops import LoopSession, SharedBudget, loop_of, pace_for, run_worker
from tests.support.long import long
from tests.support.models.small import Linear

RATE = 0.05
MODES: dict[str, dict[str, Any]] = {
    "async": {"update": "async"},
    "bounded": {"update": "bounded", "max_steps_ahead": 1},
    "sync": {"update": "sync"},
    "sync, 1 backup": {"update": "sync", "backup_workers": 1},
}


def cluster_of(workers: int, mode: dict[str, Any], model: Linear | None = None, **fields: Any) -> InProcessCluster:
    settings = {
        "optimizer": "sgd",
        "learning_rate": RATE,
        "batch_size": 4,
        "local_steps": 3,
        "steps_per_run": "auto",
        **mode,
        **fields,
    }
    cluster = InProcessCluster(model or Linear(count=120, width=5), 2, workers, partition_bytes=8, **settings)
    cluster.start()
    return cluster


def all_run(cluster: InProcessCluster) -> list[LoopExit]:
    pace, why = pace_for(cluster), dict[int, LoopExit]()

    def work(index: int) -> None:
        why[index] = run_worker(cluster, index, pace, lambda: False)

    in_parallel([functools.partial(work, index) for index in range(len(cluster.steps))], within_secs=60.0)
    return [why[index] for index in sorted(why)]


@pytest.mark.parametrize(
    ("mode", "outer", "run"),
    [
        ("async", "nesterov", "auto"),
        ("sync", "elastic", "auto"),
        long("bounded", "sgd", "2"),
        long("bounded", "elastic", "auto"),
        long("sync", "sgd", "7"),
        long("sync, 1 backup", "nesterov", "auto"),
        long("async", "elastic", "1"),
    ],
)
def test_three_workers_end_at_exactly_max_steps_which_is_no_multiple_of_a_round(
    mode: str, outer: str, run: str
) -> None:
    cluster = cluster_of(3, MODES[mode], outer_optimizer=outer, max_steps=41, steps_per_run=run)
    assert all_run(cluster) == [LoopExit.STEPS] * 3
    assert cluster.global_step() == 41
    examples = cluster.values()["ps_train/examples"]
    if mode != "sync, 1 backup":
        assert examples == 4 * 41 * (3 if mode == "sync" else 1)


def test_a_loop_makes_the_rounds_of_numpy() -> None:
    model = Linear(count=41, width=5)
    cluster = cluster_of(2, MODES["sync"], model, max_steps=16, save_steps=8)
    first = {name: cluster.values()[name] for name in ("w", "b")}
    shares = [batches_for(model.data("train", ""), 4, worker, 2) for worker in range(2)]
    rounds = LocalRounds(first, shares, Sgd, Descent(1.0), rate=lambda step: RATE)
    assert all_run(cluster) == [LoopExit.STEPS] * 2
    rounds.together([3, 3, 2, 3, 3, 2])
    for name, value in rounds.values.items():
        np.testing.assert_allclose(cluster.values()[name], value, rtol=2e-6, atol=2e-6, err_msg=name)


class Epoch(NamedTuple):
    """Two workers with `examples` in all: the batches of 96 fill their rounds, those of 83 do not."""

    mode: str
    examples: int
    run: str = "auto"


@pytest.mark.parametrize(
    "case",
    [
        Epoch("async", 96),
        long(Epoch("async", 83)),
        long(Epoch("async", 83, run="1")),
        long(Epoch("bounded", 96)),
        long(Epoch("bounded", 83, run="1")),
        long(Epoch("sync", 96)),
        long(Epoch("sync", 83)),
    ],
    ids=lambda case: f"{case.mode}, {case.examples} examples, {case.run}",
)
def test_each_example_of_an_epoch_counts_once_wherever_the_input_ends_in_a_round(case: Epoch) -> None:
    model = Linear(count=case.examples, width=5)
    cluster = cluster_of(2, MODES[case.mode], model, epochs=1, max_steps=1_000, steps_per_run=case.run)
    assert all_run(cluster) == [LoopExit.INPUT] * 2
    assert cluster.values()["ps_train/examples"] == case.examples
    batches = -(-case.examples // 8)  # of each worker
    assert cluster.global_step() == (batches if case.mode == "sync" else 2 * batches)


class Stopping:
    """A session that tells the loop to stop in the middle of a round, after some exchanges."""

    def __init__(self, session: Any, step: TrainStep, exchanges: int) -> None:
        self._session, self._train, self._left = session, step.ops.train, exchanges
        self.stop = threading.Event()

    def run(self, fetches: Any, **options: Any) -> Any:
        found = self._session.run(fetches, **options)
        if "local" in fetches and not self._left:
            self.stop.set()
        self._left -= "made" in fetches
        return found


@pytest.mark.parametrize("mode", ["async", long("bounded")])
def test_the_steps_of_a_round_that_a_loop_leaves_are_made_by_another(mode: str) -> None:
    ahead: dict[str, Any] = {"max_steps_ahead": 5} if mode == "bounded" else {}
    cluster = cluster_of(2, MODES[mode], max_steps=32, local_steps=5, **ahead)
    pace = pace_for(cluster)
    assert isinstance(pace, SharedBudget)
    stopping = Stopping(cluster.sessions[0], cluster.steps[0], exchanges=2)
    assert loop_of(cluster, 0, pace, stopping.stop.is_set).run(LoopSession(stopping)) == LoopExit.STOPPED
    assert cluster.global_step() == 10, "two rounds, and nothing of the third"
    cluster.dismiss(0)
    assert run_worker(cluster, 1, pace, lambda: False) == LoopExit.STEPS
    assert cluster.global_step() == 32
    assert cluster.values()["ps_train/examples"] == 4 * 32


@pytest.mark.parametrize("outer", ["sgd", long("elastic")])
def test_a_call_that_the_loop_counts_has_begun_on_the_ps_so_long_rounds_do_not_seem_stuck(outer: str) -> None:
    cluster = cluster_of(1, MODES["sync"], outer_optimizer=outer, max_steps=12)
    session, begun = cluster.sessions[0], cluster.steps[0].worker.calls_begun
    loop = loop_of(cluster, 0, pace_for(cluster), lambda: False)
    before = session.run(begun)
    alone = cluster.steps[0].local_steps(1)["train"]

    class Watched:
        def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(fetches, dict) and fetches["train"] == alone:
                assert session.run(begun) - before == loop.calls, "a local step waits for no call"
            return session.run(fetches, *args, **kwargs)

    assert loop.run(LoopSession(Watched())) == LoopExit.STEPS
    assert session.run(begun) - before == loop.calls > 4
