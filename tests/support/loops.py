"""The real training loop on the workers of a cluster in one process, without processes and boards."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ps_train.roles.loop import LockstepPace, Loop, Pace
from ps_train.roles.rhythm import Rhythm
from tests.support.cluster import InProcessCluster, in_parallel


class SharedBudget:
    """Hands out exactly so many steps, like the one on the board."""

    def __init__(self, max_steps: int) -> None:
        self._left = max_steps
        self._lock = threading.Lock()

    def take(self, wanted: int, global_step: int) -> int:
        with self._lock:
            count = min(wanted, self._left)
            self._left -= count
            return count

    def give_back(self, count: int) -> None:
        with self._lock:
            self._left += count


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


def pace_for(cluster: InProcessCluster) -> Pace:
    """One for all workers of a cluster."""
    steps = cluster.job.max_steps
    return LockstepPace(steps) if cluster.steps[0].lockstep else SharedBudget(steps)


def run_worker(cluster: InProcessCluster, index: int, pace: Pace, should_stop: Callable[[], bool]) -> str:
    """Until the worker's loop ends; then it leaves.  Returns why the loop ended."""
    rhythm = Rhythm.of(cluster.job)
    loop = Loop(f"worker:{index}", cluster.steps[index], pace, should_stop, first_step=0, rhythm=rhythm)
    why = loop.run(LoopSession(cluster.sessions[index]))
    cluster.dismiss(index, by=index)
    return why


@contextlib.contextmanager
def training(cluster: InProcessCluster) -> Iterator[None]:
    """All workers train in the body."""
    pace, stop = pace_for(cluster), threading.Event()

    def work() -> None:
        actions = [
            lambda index=index: run_worker(cluster, index, pace, stop.is_set) for index in range(len(cluster.steps))
        ]
        in_parallel(actions, within_secs=60)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
