"""At the end nobody hangs: many short synchronous runs, with workers that stop, die, or have little input.

Some are made with all tests; `python -m tests.cluster.test_short_runs 200` makes 200 in a row.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Iterable

import pytest
import tensorflow as tf

from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.clusters.loops import pace_for, run_worker
from tests.support.clusters.servers import POOL
from tests.support.long import long
from tests.support.models.small import Linear

RUNS, SHARES = 12, 2
BATCH = 4


class Run:
    """One short run: how many workers, how much input, and who is killed or stopped after how many steps."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.workers = chance.randint(1, 4)
        self.num_ps = chance.randint(1, 2)
        self.max_steps = chance.randint(1, 12)
        self.examples = chance.randint(self.workers, 60)
        self.epochs = chance.choice([0, 1])
        self.backups = chance.choice([0, 0, 1]) if self.workers > 1 else 0
        # Worker 0 stays, as a chief does: somebody must see that the others are gone.
        leavers = [index for index in range(1, self.workers) if chance.random() < 0.5]
        self.killed = {index: chance.randint(0, 8) for index in leavers if chance.random() < 0.5}
        self.stopped = {index: chance.randint(0, 8) for index in leavers if index not in self.killed}

    def cluster(self) -> InProcessCluster:
        fields = {"max_steps": self.max_steps, "epochs": self.epochs, "backup_workers": self.backups}
        cluster = InProcessCluster(
            Linear(count=self.examples),
            self.num_ps,
            self.workers,
            update="sync",
            learning_rate=0.01,
            batch_size=BATCH,
            partition_bytes=4,
            **fields,
        )
        cluster.start()
        return cluster

    def play(self) -> None:
        cluster = self.cluster()
        pace = pace_for(cluster)

        def work(index: int) -> None:
            if index in self.killed:
                die(index, self.killed[index])
                return
            asked = iter(range(self.stopped.get(index, 10**9)))
            run_worker(cluster, index, pace, lambda: next(asked, None) is None)

        def die(index: int, after: int) -> None:
            """Makes a few steps and falls silent in the middle of the next."""
            for _ in range(after):
                if cluster.global_step() >= self.max_steps:
                    return
                cluster.sessions[index].run(cluster.steps[index].ops.train)
            threading.Thread(target=lambda: quietly(cluster, index), daemon=True).start()
            dead.add(index)

        def look(over: threading.Event) -> None:
            """As the chief does: nobody waits for those who have been silent for a while."""
            while not over.wait(0.05):
                for index in list(dead):
                    cluster.dismiss(index)

        dead: set[int] = set()
        over = threading.Event()
        threading.Thread(target=look, args=[over], daemon=True).start()
        try:
            in_parallel([lambda index=index: work(index) for index in range(self.workers)], within_secs=20)
        finally:
            over.set()
        self.check(cluster)

    def check(self, cluster: InProcessCluster) -> None:
        step = cluster.global_step()
        if self.epochs:
            assert step <= self.max_steps
            assert cluster.values()["ps_train/examples"] <= self.examples
        else:
            assert step == self.max_steps


def quietly(cluster: InProcessCluster, index: int) -> None:
    with contextlib.suppress(tf.errors.OpError):
        cluster.sessions[index].run(cluster.steps[index].ops.train)


def play(seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            Run(seed).play()
            POOL.give_back()
        except BaseException as error:
            raise AssertionError(f"run {seed}: {vars(Run(seed))}") from error


@pytest.mark.parametrize("share", [*map(long, range(SHARES))])
def test_short_runs_all_end_at_exactly_max_steps_or_with_their_input(share: int) -> None:
    play(range(share, RUNS, SHARES))


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    play(range(wanted))
    print(f"{wanted} runs, all ended as they should")
