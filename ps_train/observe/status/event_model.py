"""A small event model of a ps job: how many steps a second its workers make together, and how many ps they need.

    costs = Costs(pause=0.05, latency=0.004, worker_cpu=0.003, ps_cpu=0.002)
    steps_per_sec(costs, workers=8, num_ps=1, cores=2)       # all tasks share two cores
    recommended_ps(costs, workers=64, ps_cores=8)            # every task on a machine of its own
    fitted = fit(costs, lambda c: steps_per_sec(c, 2, 1, cores=2), measured=120.0)

A step is: half of the worker's CPU time, half of the ps's (the pull), the pause and the latency, then the other halves
(the push).  A task that finds all cores of its machine busy waits in order of arrival.  Pure; seconds everywhere.
"""

from __future__ import annotations

import dataclasses
import heapq
import random
from collections.abc import Callable, Sequence

from ps_train.config.codec_spec import NONE, bytes_per_value

_STEPS_OF_A_WORKER, _MOST_STEPS = 400, 20_000
"""Simulated steps, of each worker and in all; the first quarter is not counted."""

_JITTER = 0.2
"""Times vary by so much, or all workers would march in step."""

ENOUGH = 0.9
"""A ps is not the bottleneck where the rate is at least this share of the rate with free ps."""

MOST_WORKERS, _MOST_PS = 1024, 256
"""Bounds of the answers; a ps that costs nothing never saturates."""

_HALVINGS = 20


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


@dataclasses.dataclass(frozen=True)
class Traffic:
    """The dense values that a step pulls, and pushes.

    Attributes:
      whole: bytes of all of them without codecs.
      pulled, pushed: numbers of the float32 values that a codec of the pull and of the push encodes.
    """

    whole: int = 0
    pulled: int = 0
    pushed: int = 0

    def on_wire(self, codecs: tuple[str, str]) -> tuple[float, float]:
        """Returns the bytes of a pull and of a push with these codecs."""
        pull, push = (bytes_per_value(codec) - bytes_per_value(NONE) for codec in codecs)
        return self.whole + self.pulled * pull, self.whole + self.pushed * push

    def without_own_share(self, workers: int) -> Traffic:
        """Returns what leaves the process of one of some workers that are also the ps, each with an even share."""
        left = workers - 1
        return Traffic(self.whole * left // workers, self.pulled * left // workers, self.pushed * left // workers)


class _Machine:
    """Some cores with one queue; arrivals must come in order of time."""

    def __init__(self, cores: int) -> None:
        self._free_at = [0.0] * cores

    def serve(self, now: float, secs: float) -> float:
        """Returns the time at which the work is done."""
        end = max(now, heapq.heappop(self._free_at)) + secs
        heapq.heappush(self._free_at, end)
        return end


def steps_per_sec(costs: Costs, workers: int, num_ps: int, cores: int, lockstep: bool = False) -> float:
    """Returns the steps of all workers a second, if all tasks share the cores of one machine.

    Args:
      costs: of one step.
      workers: number of workers.
      num_ps: number of ps.
      cores: of the machine.
      lockstep: True if no worker begins a step before all have made the last one, as under `sync`.
    """
    shared = _Machine(cores)
    return _simulate(costs, [shared] * workers, [shared] * num_ps, lockstep)


def steps_per_sec_apart(costs: Costs, workers: int, num_ps: int, ps_cores: int, lockstep: bool = False) -> float:
    """Returns the steps a second if every task has a machine of its own: a worker one core, a ps `ps_cores`."""
    servers = [_Machine(ps_cores) for _ in range(num_ps)]
    return _simulate(costs, [_Machine(1) for _ in range(workers)], servers, lockstep)


def steps_per_sec_on(
    costs: Costs, workers: Sequence[str], servers: Sequence[str], cores: dict[str, int], lockstep: bool = False
) -> float:
    """Returns the steps a second of tasks on some machines.

    Args:
      costs: of one step.
      workers: the machine of each worker.
      servers: the machine of each ps.
      cores: of each machine.
      lockstep: as for `steps_per_sec`.
    """
    machines = {name: _Machine(count) for name, count in cores.items()}
    return _simulate(costs, [machines[name] for name in workers], [machines[name] for name in servers], lockstep)


def fit(costs: Costs, rate: Callable[[Costs], float], measured: float) -> Costs:
    """Returns the costs with which the model gives a measured rate.

    A model that is too fast gets more latency.  One that is too slow gets less CPU time of the worker, whose step then
    runs on several cores at a time.

    Args:
      costs: of one step; the latency does not matter.
      rate: returns the model's steps a second.
      measured: steps a second.
    """
    costs = dataclasses.replace(costs, latency=0.0)
    if rate(costs) >= measured:
        most = 1.0
        while rate(dataclasses.replace(costs, latency=most)) > measured:
            most *= 4
        return _bisect(lambda share: dataclasses.replace(costs, latency=(1 - share) * most), rate, measured)
    return _bisect(lambda share: dataclasses.replace(costs, worker_cpu=(1 - share) * costs.worker_cpu), rate, measured)


def _bisect(make: Callable[[float], Costs], rate: Callable[[Costs], float], measured: float) -> Costs:
    """Returns the costs of the share from 0 to 1 at which the rate, which grows with the share, is the measured one."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(make(middle)) < measured else (low, middle)
    return make(high)


def _simulate(costs: Costs, workers: list[_Machine], servers: list[_Machine], lockstep: bool) -> float:
    chance = random.Random(1)
    events = [(chance.random() * costs.pause, number, 0) for number in range(len(workers))]
    heapq.heapify(events)
    total = max(8 * len(workers), min(_MOST_STEPS, _STEPS_OF_A_WORKER * len(workers)))
    made, counted_from = 0, 0.0
    done: list[int] = []
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
            if lockstep:
                done.append(number)
                if len(done) == len(workers):
                    events, done = [(now, other, 0) for other in done], []
                    heapq.heapify(events)
                continue
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


def recommended_ps(costs: Costs, workers: int, ps_cores: int) -> int:
    """Returns the fewest ps, each on its own machine, that do not hold so many workers back."""
    num_ps = 1
    while num_ps < _MOST_PS and not _is_enough(costs, workers, num_ps, ps_cores):
        num_ps += 1
    return num_ps


def _is_enough(costs: Costs, workers: int, num_ps: int, ps_cores: int) -> bool:
    alone = costs.pause + costs.latency + costs.worker_cpu + costs.ps_cpu / num_ps
    return alone <= 0 or steps_per_sec_apart(costs, workers, num_ps, ps_cores) >= ENOUGH * workers / alone
