"""One run of one contender: its steady part is measured, or its test loss after so many steps is read.

measured = measure(contender, Setting("small"), secs=4)
loss = check_loss(contender, Setting("small", max_steps=400))
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from benchmarks.contenders import Contender, Setting
from benchmarks.errors import ContenderError
from benchmarks.processes import Line, PeakMemory, Processes, Running
from benchmarks.workloads import workload_class
from benchmarks.workloads.base import Workload

START_SECS = 120.0
"""A contender that has not begun to train by then has failed."""

_Found = TypeVar("_Found")
_STEP = re.compile(r"^step (\d+)")
_TEST_LOSS = re.compile(r"^test .*?loss ([\d.]+|nan|inf)")


@dataclasses.dataclass(frozen=True)
class Measured:
    """The steady part of one run.

    Attributes:
      steps_per_sec: global steps, of all processes that count their own together.
      examples_per_sec: of all workers.
      cpu_secs: "ps" and "workers" to CPU seconds per 1000 examples.
      ps_peak_bytes: resident memory, 0 where there is no ps.
      resident_bytes: the largest sum of the resident memory of all processes.
      counted: what the counters of `measure` have grown by for each batch.
    """

    steps_per_sec: float
    examples_per_sec: float
    cpu_secs: dict[str, float]
    ps_peak_bytes: int
    resident_bytes: int
    counted: dict[str, float] = dataclasses.field(default_factory=dict)


Counters = Callable[[], Mapping[str, float]]
"""Reads numbers that only grow, such as bytes that were sent."""


@dataclasses.dataclass(frozen=True)
class _Window:
    """What one speaker said at the two ends of the steady part."""

    begin: Line
    end: Line
    cpu_begin: dict[str, float]
    cpu_end: dict[str, float]
    counts_begin: Mapping[str, float]
    counts_end: Mapping[str, float]

    def rate(self) -> float:
        return (step_of(self.end) - step_of(self.begin)) / (self.end.time - self.begin.time)

    def cpu_rate(self, group: str) -> float:
        return (self.cpu_end[group] - self.cpu_begin[group]) / (self.end.time - self.begin.time)

    def counted(self, batches_per_step: int) -> dict[str, float]:
        batches = (step_of(self.end) - step_of(self.begin)) * batches_per_step
        return {name: (count - self.counts_begin[name]) / batches for name, count in self.counts_end.items()}


def step_of(line: Line) -> int:
    found = _STEP.match(line.text)
    return int(found[1]) if found else -1


def measure(contender: Contender, setting: Setting, secs: float, counters: Counters = dict) -> Measured:
    """Raises ContenderError when the contender does not train."""
    workload = workload_class(setting.workload)
    with run_of(contender, setting, endless=True) as processes, PeakMemory(processes) as memory:
        speakers = processes.running[-contender.speakers :]
        windows = _of_each(processes, speakers, lambda one: _window(processes, one, secs, workload, counters))
        processes.check()
        peak = processes.ps_peak_bytes()
    steps_per_sec = sum(window.rate() for window in windows)
    examples_per_sec = steps_per_sec * workload.batch_size * contender.batches_per_step(setting.num_workers)
    if not steps_per_sec > 0:
        raise ContenderError(f"{contender.name} on {setting.workload} made no step in its steady part")
    cpu = {group: 1000 * windows[0].cpu_rate(group) / examples_per_sec for group in ("ps", "workers")}
    counted = windows[0].counted(contender.batches_per_step(setting.num_workers))
    return Measured(steps_per_sec, examples_per_sec, cpu, peak, memory.resident_bytes, counted)


@contextlib.contextmanager
def run_of(contender: Contender, setting: Setting, endless: bool = False) -> Iterator[Processes]:
    """Starts the contender's programs; what fails in them is told with the contender's name."""
    try:
        with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless) as processes:
            for program in contender.programs(setting):
                processes.start(program)
            yield processes
    except ContenderError as error:
        raise ContenderError(f"{contender.name} on {setting.workload}: {error}") from None


def settle_all(processes: Processes, speakers: Sequence[Running], workload: type[Workload]) -> None:
    """Waits until the steady part of all speakers has begun."""
    _of_each(processes, speakers, lambda speaker: settle(speaker, workload))


def steady_rate(processes: Processes, speakers: Sequence[Running], since: float, secs: float) -> float:
    """Global steps per second of all speakers, from their first lines after a time (of the monotonic clock) on."""

    def rate_of(speaker: Running) -> float:
        within = max(0.0, since - time.monotonic()) + secs + START_SECS
        begin = speaker.wait_for(lambda line: _is_step(line) and line.time >= since, within)
        end = speaker.wait_for(lambda line: _is_step(line) and line.time >= begin.time + secs, within)
        return (step_of(end) - step_of(begin)) / (end.time - begin.time)

    return sum(_of_each(processes, speakers, rate_of))


def _of_each(processes: Processes, speakers: Sequence[Running], function: Callable[[Running], _Found]) -> list[_Found]:
    """What a function returns for each speaker, all at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(speakers)) as pool:
        jobs = [pool.submit(function, one) for one in speakers]
        try:
            return [job.result() for job in jobs]
        except BaseException:
            processes.end()  # first, since the pool waits for those who listen to them
            raise


def _window(
    processes: Processes,
    speaker: Running,
    secs: float,
    workload: type[Workload],
    counters: Counters,
) -> _Window:
    begin = settle(speaker, workload)
    cpu_begin, counts_begin = processes.cpu_secs(), counters()
    end = speaker.wait_for(lambda line: _is_step(line) and line.time >= begin.time + secs, START_SECS)
    return _Window(begin, end, cpu_begin, processes.cpu_secs(), counts_begin, counters())


def settle(speaker: Running, workload: type[Workload]) -> Line:
    """The line with which the steady part begins."""
    warm = speaker.wait_for(lambda line: step_of(line) >= workload.warmup_steps, START_SECS)
    return speaker.wait_for(
        lambda line: _is_step(line) and line.time >= warm.time + workload.settle_secs, workload.settle_secs + START_SECS
    )


def _is_step(line: Line) -> bool:
    return step_of(line) >= 0


def check_loss(contender: Contender, setting: Setting, within_secs: float = 300.0) -> float:
    """The loss on the test split after exactly `setting.max_steps` global steps."""
    with run_of(contender, setting) as processes:
        line = processes.running[-1].wait_for(lambda line: _TEST_LOSS.match(line.text) is not None, within_secs)
    found = _TEST_LOSS.match(line.text)
    assert found is not None
    return float(found[1])


def time_to_first_steps(contender: Contender, setting: Setting) -> float:
    """Seconds from launch until every worker has made its first step."""
    began = time.monotonic()
    last = began
    with run_of(contender, setting, endless=True) as processes:
        speakers = [one for one in processes.running if "--job_name=ps" not in one.program.command]
        for speaker in speakers:
            for _ in range(setting.num_workers // len(speakers)):  # the launcher passes on what all of them say
                last = max(last, speaker.wait_for(lambda line: "first step" in line.text, START_SECS).time)
    return last - began
