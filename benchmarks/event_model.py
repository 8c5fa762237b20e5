"""A small event model of a ps job: how many steps a second so many workers make together, and how many ps they need.

    costs = Costs(pause=0.05, latency=0.004, worker_cpu=0.003, ps_cpu=0.002)
    steps_per_sec(costs, workers=8, num_ps=1, cores=2)       # all tasks share two cores
    recommended_ps(costs, workers=64, ps_cores=8)            # every task on a machine of its own

A step is: half of the worker's CPU time, half of the ps's (the pull), the pause and the latency, then the other halves
(the push).  Whoever finds all cores of a machine busy waits in order of arrival.  Pure; seconds everywhere.
"""

from __future__ import annotations

import dataclasses
import heapq
import random

_SIMULATED_STEPS = 400
"""Of each worker; the first quarter is not counted."""

_JITTER = 0.2
"""Times vary by so much, or all workers would march in step."""

ENOUGH = 0.9
"""A ps is not the bottleneck where the rate is at least this share of what it were with free ps."""


@dataclasses.dataclass(frozen=True)
class Costs:
    """Of one step.

    Attributes:
      pause: computing, on cores that nobody else wants.
      latency: neither computing nor anybody's CPU time: packets and threads on their way.
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
        """When the work is done."""
        end = max(now, heapq.heappop(self._free_at)) + secs
        heapq.heappush(self._free_at, end)
        return end


def steps_per_sec(costs: Costs, workers: int, num_ps: int, cores: int) -> float:
    """All tasks share the cores of one machine."""
    shared = _Machine(cores)
    return _simulate(costs, [shared] * workers, [shared] * num_ps)


def steps_per_sec_apart(costs: Costs, workers: int, num_ps: int, ps_cores: int) -> float:
    """Every task has a machine of its own, a worker one core for its traffic, a ps `ps_cores`."""
    return _simulate(costs, [_Machine(1) for _ in range(workers)], [_Machine(ps_cores) for _ in range(num_ps)])


def _simulate(costs: Costs, workers: list[_Machine], servers: list[_Machine]) -> float:
    chance = random.Random(1)
    events = [(chance.random() * costs.pause, number, 0) for number in range(len(workers))]
    heapq.heapify(events)
    total = _SIMULATED_STEPS * len(workers)
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
    return (made - total // 4) / (now - counted_from)


def workers_at_saturation(costs: Costs, num_ps: int, ps_cores: int) -> int:
    """From how many workers on, each on its own machine, the ps hold them back (see ENOUGH)."""
    workers = 1
    while _is_enough(costs, workers, num_ps, ps_cores):
        workers *= 2
    low, high = workers // 2, workers
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_enough(costs, middle, num_ps, ps_cores) else (low, middle)
    return high


def recommended_ps(costs: Costs, workers: int, ps_cores: int) -> int:
    """The fewest ps, each on its own machine, that do not hold so many workers back."""
    num_ps = 1
    while not _is_enough(costs, workers, num_ps, ps_cores):
        num_ps += 1
    return num_ps


def _is_enough(costs: Costs, workers: int, num_ps: int, ps_cores: int) -> bool:
    alone = costs.pause + costs.latency + costs.worker_cpu + costs.ps_cpu / num_ps
    return steps_per_sec_apart(costs, workers, num_ps, ps_cores) >= ENOUGH * workers / alone
