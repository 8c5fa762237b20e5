"""Judges samples of a process: does what it holds grow with the number of calls?

    judged = judge(samples, warmup=120_000)
    judged.growth["rss"]            # bytes per 100,000 calls
    judged.exceeded                 # names that grow by more than BOUNDS; empty for a flat process

The growth is the difference of two medians: that of the first and that of the last quarter of the samples after the
warm-up.  Medians ignore peaks, such as those of a checkpoint, and the difference counts a leak in few large pieces as
well as one in many small pieces.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence

PER_CALLS = 100_000
WARMUP_CALLS = 120_000
"""TensorFlow remembers the ids of the last 100,000 calls.  A process that has made fewer still has to grow."""

MIN_CALLS = 100_000
MIN_SAMPLES = 20

MIB = 1 << 20
BOUNDS: Mapping[str, float] = {"anonymous": MIB, "rss": MIB, "fds": 1, "threads": 1}
"""The growth per 100,000 calls must stay below: 1 MiB is 10 bytes a call.  Memory without what TensorFlow keeps."""

DISK_BOUNDS: Mapping[str, float] = {"events": MIB, "others": MIB, "files": 2}
"""The growth per hour must stay below."""

DISK_WARMUP_SECS = 600.0
"""By then all checkpoints that are kept exist, and the points of the event file come at longer intervals."""

KEPT_BYTES = 900
"""Less than one kept rendezvous takes anywhere: docs/decisions/0038-kept-rendezvous.md."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """A process at one moment.

    Attributes:
      calls: `session.run` calls of training that each worker has made by then.
      rss, pss: resident bytes; pss shares those of several processes among them.
      anonymous: resident bytes of no file: unlike `rss`, the kernel cannot drop them when memory is short.
      fds, threads: open file descriptors, and threads.
      kept: rendezvous that TensorFlow keeps for ever.
    """

    calls: int
    rss: int
    pss: int
    anonymous: int
    fds: int
    threads: int
    kept: int = 0


@dataclasses.dataclass(frozen=True)
class Disk:
    """A model directory at one moment.

    Attributes:
      secs: since the job was started.
      events, others: bytes of event files, and of all others.
      files: number of files.
    """

    secs: float
    events: int
    others: int
    files: int


@dataclasses.dataclass(frozen=True)
class JudgedDisk:
    """A model directory's verdict.

    Attributes:
      first, last: medians at the beginning and at the end of the judged time, by the names of Disk.
      growth: per hour.
    """

    first: Mapping[str, float]
    last: Mapping[str, float]
    growth: Mapping[str, float]

    @property
    def exceeded(self) -> list[str]:
        return [name for name, bound in DISK_BOUNDS.items() if self.growth[name] >= bound]


@dataclasses.dataclass(frozen=True)
class Judged:
    """A process's verdict.

    Attributes:
      first, last: medians at the beginning and at the end of the judged calls, by the names of Sample.
      growth: per 100,000 calls.
    """

    first: Mapping[str, float]
    last: Mapping[str, float]
    growth: Mapping[str, float]

    @property
    def exceeded(self) -> list[str]:
        return [name for name, bound in BOUNDS.items() if self.rest(name) >= bound]

    def rest(self, name: str) -> float:
        """Returns the growth per 100,000 calls; of memory, without what TensorFlow keeps."""
        return self.growth[name] - (KEPT_BYTES * self.growth["kept"] if name in ("rss", "anonymous") else 0.0)


def judge(samples: Sequence[Sample], warmup: int = WARMUP_CALLS, calls: int = 1) -> Judged | None:
    """Returns the verdict, or None where the samples after the warm-up are too few or too close for one.

    Args:
      samples: of one process.
      warmup: calls of each worker that are not judged.
      calls: that the process takes part in while each worker makes one.
    """
    later = [sample for sample in samples if sample.calls >= warmup]
    if len(later) < MIN_SAMPLES or later[-1].calls - later[0].calls < 0.9 * MIN_CALLS:
        return None
    first, last = _ends(later)
    passed = calls * (last["calls"] - first["calls"]) / PER_CALLS
    return Judged(first, last, {name: (last[name] - first[name]) / passed for name in first if name != "calls"})


def judge_disk(samples: Sequence[Disk], warmup: float = DISK_WARMUP_SECS) -> JudgedDisk | None:
    """Returns the verdict, or None where the samples after the warm-up are too few for one."""
    later = [sample for sample in samples if sample.secs >= warmup]
    if len(later) < MIN_SAMPLES:
        return None
    first, last = _ends(later)
    hours = (last["secs"] - first["secs"]) / 3600
    return JudgedDisk(first, last, {name: (last[name] - first[name]) / hours for name in DISK_BOUNDS})


def medians_at(samples: Sequence[Sample], calls: int, of: Callable[[Sample], float]) -> float:
    """Returns the median of the five samples nearest to that number of calls."""
    nearest = sorted(samples, key=lambda sample: abs(sample.calls - calls))[:5]
    return statistics.median(map(of, nearest))


def _ends(samples: Sequence[Sample] | Sequence[Disk]) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the medians of the first and of the last quarter."""
    quarter = len(samples) // 4
    return _medians(samples[:quarter]), _medians(samples[-quarter:])


def _medians(samples: Sequence[Sample] | Sequence[Disk]) -> dict[str, float]:
    names = [field.name for field in dataclasses.fields(samples[0])]
    return {name: statistics.median(getattr(sample, name) for sample in samples) for name in names}
