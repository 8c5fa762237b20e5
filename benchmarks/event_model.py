"""A small event model of a ps job: how many steps a second its workers make together.

    costs = Costs(pause=0.05, latency=0.004, worker_cpu=0.003, ps_cpu=0.002)
    steps_per_sec(costs, workers=8, num_ps=1, cores=2)       # all tasks share two cores
    workers_at_saturation(costs, num_ps=1, ps_cores=8)       # every task on a machine of its own

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

ENOUGH = 0.9
"""A ps is not the bottleneck where the rate is at least this share of the rate with free ps."""

MOST_WORKERS = 1024
"""Bound of the answers; a ps that costs nothing never saturates."""


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


def steps_per_sec(costs: Costs, workers: int, num_ps: int, cores: int) -> float:
    """Returns the steps of all workers a second, if all tasks share the cores of one machine.

    Args:
      costs: of one step.
      workers: number of workers.
      num_ps: number of ps.
      cores: of the machine.
    """
    shared = _Machine(cores)
    return _simulate(costs, [shared] * workers, [shared] * num_ps)


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


def workers_at_saturation(costs: Costs, num_ps: int, ps_cores: int) -> int:
    """Returns the number of workers, each on its own machine, from which on the ps hold them back (see ENOUGH)."""
    workers = 1
    while _is_enough(costs, workers, num_ps, ps_cores):
        workers *= 2
        if workers > MOST_WORKERS:
            return MOST_WORKERS
    low, high = workers // 2, workers
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_enough(costs, middle, num_ps, ps_cores) else (low, middle)
    return high


def _is_enough(costs: Costs, workers: int, num_ps: int, ps_cores: int) -> bool:
    alone = costs.pause + costs.latency + costs.worker_cpu + costs.ps_cpu / num_ps
    return alone <= 0 or steps_per_sec_apart(costs, workers, num_ps, ps_cores) >= ENOUGH * workers / alone
