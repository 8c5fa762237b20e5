"""A small event model of a ps job: how many steps a second its workers make together.

    costs = Costs(pause=0.05, latency=0.004, worker_cpu=0.003, ps_cpu=0.002)
    steps_per_sec_apart(costs, workers=8, num_ps=1, ps_cores=8)

A step is: half of the worker's CPU time, half of the ps's (the pull), the pause and the latency, then the other halves
(the push).  A task that finds all cores of its machine busy waits in order of arrival.  Pure; seconds everywhere.
"""

from __future__ import annotations

import dataclasses
import heapq
import random

_STEPS_OF_A_WORKER, _MOST_STEPS = 400, 20_000
"""Simulated steps, of each worker and in all; the first quarter is not counted."""

_JITTER = 0.2
"""Times vary by so much, or all workers would march in step."""


@dataclasses.dataclass(frozen=True)
class Costs:
    """Costs of one step.

    Attributes:
      pause: computing, on cores that no other task wants.
      latency: neither computing nor CPU time of a task: packets and threads on their way.
      worker_cpu, ps_cpu: CPU time of the worker, and of all ps together, for the step's traffic and update.
    """

    pause: float
    latency: float
    worker_cpu: float
    ps_cpu: float


class _Machine:
    """Some cores with one queue; arrivals must come in order of time."""

    def __init__(self, cores: int) -> None:
        self._free_at = [0.0] * cores

    def serve(self, now: float, secs: float) -> float:
        """Returns the time at which the work is done."""
        end = max(now, heapq.heappop(self._free_at)) + secs
        heapq.heappush(self._free_at, end)
        return end


def steps_per_sec_apart(costs: Costs, workers: int, num_ps: int, ps_cores: int) -> float:
    """Returns the steps a second if every task has a machine of its own: a worker one core, a ps `ps_cores`."""
    servers = [_Machine(ps_cores) for _ in range(num_ps)]
    return _simulate(costs, [_Machine(1) for _ in range(workers)], servers)


def _simulate(costs: Costs, workers: list[_Machine], servers: list[_Machine]) -> float:
    chance = random.Random(1)
    events = [(chance.random() * costs.pause, number, 0) for number in range(len(workers))]
    heapq.heapify(events)
    total = max(8 * len(workers), min(_MOST_STEPS, _STEPS_OF_A_WORKER * len(workers)))
    made, counted_from = 0, 0.0
    while made < total:
        now, number, phase = heapq.heappop(events)
        vary = 1.0 + _JITTER * (2 * chance.random() - 1)
        if phase in (0, 3):
            now = workers[number].serve(now, vary * costs.worker_cpu / 2)
        elif phase in (1, 4):
            now = max(one.serve(now, vary * costs.ps_cpu / 2 / len(servers)) for one in servers)
        else:
            now += vary * (costs.pause + costs.latency)
        if phase == 4:
            made += 1
            counted_from = now if made == total // 4 else counted_from
        heapq.heappush(events, (now, number, (phase + 1) % 5))
    return (made - total // 4) / (now - counted_from) if now > counted_from else float("inf")
