"""At the end of a job nothing hangs: short synchronous runs, with workers that stop, die, or have little input."""

from __future__ import annotations

import argparse
import contextlib
import random
import threading

import tensorflow as tf

from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.clusters.loops import pace_for, run_worker
from tests.support.clusters.servers import POOL
from tests.support.models.small import Linear
from tests.trials.running import Verdicts

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


def play(seed: int) -> str:
    """Makes a run, which raises an error if it does not end as it must; gives the servers back."""
    Run(seed).play()
    POOL.give_back()
    return ""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials short_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; each next one has the next")
    given = parser.parse_args(arguments)
    verdicts = Verdicts("runs")
    for seed in range(given.seed, given.seed + given.runs):
        verdicts.judge(str(seed), lambda seed=seed: play(seed), str(vars(Run(seed))))
    return verdicts.end()
