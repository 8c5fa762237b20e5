"""The real training loop on the workers of a cluster in one process, without processes and boards."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ps_train.training.loop.burst_size import BurstScheduler
from ps_train.training.loop.local_loop import LocalLoop, RoundScheduler
from ps_train.training.loop.loop import LoopExit, TrainingLoop
from ps_train.training.loop.step_sources import LockstepSource, StepSource
from tests.support.clusters.cluster import InProcessCluster


class SharedBudget:
    """Hands out exactly so many steps, like the one on the board; whole portions, but for the last ones."""

    def __init__(self, max_steps: int, portion: int = 1) -> None:
        self._left, self._portion = max_steps, portion
        self._lock = threading.Lock()

    def take(self, wanted: int, global_step: int) -> int:
        with self._lock:
            count = min(wanted, self._left)
            if self._portion < count < self._left:
                count -= count % self._portion
            self._left -= count
            return count

    def made(self, count: int) -> None:
        pass

    def give_back(self, count: int) -> None:
        with self._lock:
            self._left += count

    def settle(self) -> None:
        pass


class _Context:
    def __init__(self, session: Any) -> None:
        self.session = session
        self.run_with_hooks = session.run


class LoopSession:
    """What a loop needs of a MonitoredSession."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run_step_fn(self, step_fn: Callable[[Any], Any]) -> Any:
        return step_fn(_Context(self._session))


def pace_for(cluster: InProcessCluster) -> StepSource:
    """One for all workers of a cluster."""
    steps = cluster.job.max_steps
    return (
        LockstepSource(steps) if cluster.steps[0].lockstep else SharedBudget(steps, cluster.job.local_step_limits.lower)
    )


def loop_of(cluster: InProcessCluster, index: int, pace: StepSource, should_stop: Callable[[], bool]) -> TrainingLoop:
    """The loop of a worker, made as `ps_train/training/tasks/attempt.py` makes it."""
    job, step = cluster.job, cluster.steps[index]
    if not job.has_local_steps:
        rhythm = BurstScheduler.of(job)
        return TrainingLoop(f"worker:{index}", step, pace, should_stop, first_step=0, bursts=rhythm)
    rounds = RoundScheduler.of(
        job,
        nodes=step.calls.nodes,
        replicas=1 if step.lockstep else len(cluster.steps),
        round_steps=job.local_step_limits,
        cuts=job.save_steps if step.lockstep else 0,
        round_secs=job.round_secs,
    )
    return LocalLoop(f"worker:{index}", step, pace, should_stop, first_step=0, bursts=rounds)


def run_worker(cluster: InProcessCluster, index: int, pace: StepSource, should_stop: Callable[[], bool]) -> LoopExit:
    """Until the worker's loop ends; then it leaves.  Returns why the loop ended."""
    why = loop_of(cluster, index, pace, should_stop).run(LoopSession(cluster.sessions[index]))
    cluster.dismiss(index, by=index)
    return why


@contextlib.contextmanager
def training(cluster: InProcessCluster, end_secs: float = 20.0) -> Iterator[None]:
    """Trains with all workers while the body runs.

    The error of a worker is raised in place of what it made of the body, and a worker that does not end within
    `end_secs` after the body fails the test.
    """
    pace, stop = pace_for(cluster), threading.Event()
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            run_worker(cluster, index, pace, stop.is_set)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[index], daemon=True) for index in range(len(cluster.steps))]
    for thread in threads:
        thread.start()
    try:
        yield
    except BaseException as failure:
        stop.set()
        raise errors[0] if errors else failure from None
    stop.set()
    deadline = time.monotonic() + end_secs
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a worker did not end"
