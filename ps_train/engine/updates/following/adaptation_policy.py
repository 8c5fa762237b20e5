"""The choice of values that follow measurements: batch size, wait limits, push codec.  Pure.

    policy = Adaptation({"batch_size": Ladder((64, 128, 256, 512), synchronisation(0.2))})
    policy.next_change({"batch_size": 64}, Measured(900.0, {SYNCHRONISATION: 0.7}))  # Change("batch_size", 128, …)

Each value has a ladder: a larger value costs something (memory, staleness, lost work, CPU time) and lowers a share of a
step's time.  While that share is too large, the next value is tried.  Every change is a trial, which the next
measurements confirm or take back: one where the difference is plain, some more where it could be chance.  Only one
value is on trial at a time, so two changes never blur each other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SYNCHRONISATION, WAITING, PUSHING = "synchronisation", "waiting", "pushing"
"""Shares of a step's time that are measured."""

_COSTS = {
    SYNCHRONISATION: "synchronisation took {:.0%} of a step",
    WAITING: "workers waited {:.0%} of their time",
    PUSHING: "pushes took {:.0%} of a step",
}

_CALM = 3
"""Consecutive measurements with a small share after which a smaller value is tried."""

_FIRST_PATIENCE, _MOST_PATIENCE = 4, 64
"""Measurements after a useless trial until the next one in that direction; doubled each time."""

_MOST_WINDOWS = 4
"""Most measurements of a trial, and most that are kept of the values before."""

_NOISE, _NOISE_WEIGHT = 0.02, 4
"""Relative standard deviation of the examples per second that is assumed at first, and how many measurements it counts
for."""

_OTHER_JOB = 0.7
"""Ratio of the examples per second, either way, from which on an old trial says nothing about the present."""


class AdaptationRule(NamedTuple):
    """The rule by which a value is changed, in shares and ratios.

    Attributes:
      cost: the share that a larger value lowers.
      limit: a larger value is tried while the share exceeds it.
      calm: a smaller value is tried after some measurements with a share below it; 1: now and then in any case.
      gain: smallest ratio of the examples/s with a larger value to those before that keeps it.
      relief: largest ratio of the share with a larger value to that before that keeps it.
      loss: smallest ratio of the examples/s with a smaller value to those before that keeps it.
      most: largest share with a smaller value that keeps it, unless it is faster.
    """

    cost: str
    limit: float
    calm: float
    gain: float
    relief: float
    loss: float
    most: float


def synchronisation(limit: float) -> AdaptationRule:
    """Returns the rule of a batch size: synchronisation may take `limit` of a step, and growth must bring speed."""
    return AdaptationRule(SYNCHRONISATION, limit, limit / 4, gain=1.05, relief=math.inf, loss=0.9, most=limit)


STRAGGLERS = AdaptationRule(WAITING, limit=0.05, calm=1.0, gain=0.97, relief=0.9, loss=0.97, most=0.05)
"""The rule of a lead or of backup workers: growth must shorten the waiting, and may not cost speed."""

BYTES = AdaptationRule(PUSHING, limit=0.1, calm=1.0, gain=1.02, relief=math.inf, loss=0.98, most=1.0)
"""The rule of a codec, whose only use is speed: a push of half of the bytes saves at most half of its time."""


class Ladder(NamedTuple):
    """The possible values of a flag, from the first to the largest, and its rule."""

    values: Sequence[int]
    rule: AdaptationRule


class Measured(NamedTuple):
    """A measurement over some seconds.

    Attributes:
      examples_per_sec: the examples per second of the whole job.
      shares: the measured shares of a step's time, 0..1; a share that is not known is missing.
    """

    examples_per_sec: float
    shares: Mapping[str, float]


class Change(NamedTuple):
    """A change of a value, with its reason in words."""

    name: str
    value: int
    reason: str


class Adaptation:
    """A state machine that chooses the next change.

    Args:
      ladders: name of a flag to its ladder.
    """

    def __init__(self, ladders: Mapping[str, Ladder]) -> None:
        self._ladders = {name: _Climber(name, ladder) for name, ladder in ladders.items()}
        self._trial: _Trial | None = None
        self._values: Mapping[str, int] = {}
        self._windows = _Windows()
        self._noise = _Noise()

    def next_change(self, values: Mapping[str, int], measured: Measured) -> Change | None:
        """Returns the change to make now; None for none.

        Args:
          values: the present value of each flag, with which the following was measured.
          measured: the measurement.
        """
        if values != self._values:  # first, or another process has chosen them
            self._values, self._windows, self._trial = dict(values), _Windows(), None
        if self._windows.all:
            self._noise.add(self._windows.all[-1].examples_per_sec, measured.examples_per_sec)
        self._windows = self._windows.with_one(measured)
        for climber in self._ladders.values():
            climber.pass_by(measured)
        trial, first = self._trial, None
        if trial is not None:
            first = self._ladders[trial.name]
            useful = first.is_useful(trial, self._windows, self._noise.value)
            if useful is None:
                return None
            self._trial = None
            back = first.end(trial, self._windows, useful)
            if back is not None:
                self._values, self._windows = {**values, back.name: back.value}, trial.windows
                return back
        mean = self._windows.mean()
        for climber in sorted(self._ladders.values(), key=lambda one: one is not first):
            value = values[climber.name]
            chosen = climber.next_value(value, mean)
            if chosen != value:
                self._trial = _Trial(climber.name, value, chosen, self._windows)
                self._values, self._windows = {**values, climber.name: chosen}, _Windows()
                return Change(climber.name, chosen, climber.cost_text(mean))
        return None


class _Windows:
    """The last measurements with the same values."""

    def __init__(self, windows: Sequence[Measured] = ()) -> None:
        self.all = tuple(windows)

    def with_one(self, measured: Measured) -> _Windows:
        """Returns them with one more; those of another job are left out."""
        kept = [one for one in self.all if not is_other_job(one.examples_per_sec, measured.examples_per_sec)]
        return _Windows((*kept, measured)[-_MOST_WINDOWS:])

    def mean(self) -> Measured:
        """Returns the mean of the measurements."""
        shares = {
            cost: statistics.fmean(one.shares[cost] for one in self.all if cost in one.shares)
            for cost in {cost for one in self.all for cost in one.shares}
        }
        return Measured(statistics.fmean(one.examples_per_sec for one in self.all), shares)


class _Noise:
    """The relative standard deviation of the examples per second, from measurements that follow each other."""

    def __init__(self) -> None:
        self._variance = _NOISE**2

    @property
    def value(self) -> float:
        return math.sqrt(self._variance)

    def add(self, before: float, after: float) -> None:
        """Takes in two measurements with the same values."""
        if before + after > 0 and not is_other_job(before, after):
            found = 0.5 * (2 * (after - before) / (after + before)) ** 2
            self._variance += (found - self._variance) / _NOISE_WEIGHT


class _Trial(NamedTuple):
    name: str
    before: int
    after: int
    windows: _Windows
    """The measurements before."""


def is_other_job(one: float, other: float) -> bool:
    """Returns True if two numbers of examples per second differ so much that one says nothing about the other."""
    return not _OTHER_JOB * one <= other <= one / _OTHER_JOB


class _Climber:
    """The state of one ladder."""

    def __init__(self, name: str, ladder: Ladder) -> None:
        self.name, self._values, self._rule = name, tuple(ladder.values), ladder.rule
        self._grow, self._shrink = _Patience(), _Patience()
        self._reach = 1
        self._calm = 0

    def pass_by(self, measured: Measured) -> None:
        """Takes in that a measurement was made."""
        self._grow.pass_by(measured.examples_per_sec)
        self._shrink.pass_by(measured.examples_per_sec)

    def is_useful(self, trial: _Trial, windows: _Windows, noise: float) -> bool | None:
        """Returns whether a trial has brought what it must; None if another measurement must tell.

        Args:
          trial: the change, with the measurements before it.
          windows: the measurements since it began, at least one.
          noise: the relative standard deviation of a measurement's examples per second.
        """
        rule, before, after = self._rule, trial.windows.mean(), windows.mean()
        ratio = after.examples_per_sec / before.examples_per_sec if before.examples_per_sec > 0 else math.inf
        has_grown = self._has_grown(trial)
        least, most_share = rule.gain, rule.relief * before.shares.get(rule.cost, 0.0)
        if not has_grown:
            least, most_share = rule.loss, rule.most
        if most_share < 1:
            if (share := after.shares.get(rule.cost)) is None:
                return None
            if share > most_share:
                least = math.inf if has_grown else 1 / rule.loss
        error = ratio * noise * math.sqrt(1 / len(trial.windows.all) + 1 / len(windows.all))
        if abs(ratio - least) < error and len(windows.all) < _MOST_WINDOWS:
            return None
        return ratio >= least

    def end(self, trial: _Trial, windows: _Windows, useful: bool) -> Change | None:
        """Ends a trial, and returns the change back if it was useless."""
        before, after, has_grown = trial.windows.mean(), windows.mean(), self._has_grown(trial)
        if not useful:
            (self._grow if has_grown else self._shrink).wait(before.examples_per_sec)
            self._reach += has_grown  # one value alone may not help, as one backup worker for two stragglers
            return Change(
                self.name, trial.before, f"{self.cost_text(after)}, no gain over {before.examples_per_sec:.0f}"
            )
        if has_grown:
            self._reach, self._grow, self._shrink = 1, _Patience(), _Patience()
            self._shrink.wait(after.examples_per_sec)
        return None

    def _has_grown(self, trial: _Trial) -> bool:
        return self._values.index(trial.after) > self._values.index(trial.before)

    def next_value(self, value: int, measured: Measured) -> int:
        """Returns a value to try, or the present one."""
        share, rule = measured.shares.get(self._rule.cost), self._rule
        if share is None or value not in self._values:
            return value
        place = self._values.index(value)
        self._calm = self._calm + 1 if share < rule.calm or rule.calm == 1.0 else 0
        if share > rule.limit and place + 1 < len(self._values) and self._grow.is_over:
            self._calm = 0
            return self._values[min(place + self._reach, len(self._values) - 1)]
        if self._calm >= _CALM and place > 0 and self._shrink.is_over:
            self._calm = 0
            return self._values[place - 1]
        return value

    def cost_text(self, measured: Measured) -> str:
        """Returns the measurement in words, with the share if it is known."""
        share = measured.shares.get(self._rule.cost)
        of_step = "" if share is None else f"{_COSTS[self._rule.cost].format(share)} at "
        return f"{of_step}{measured.examples_per_sec:.0f} examples/s"


class _Patience:
    """Measurements to wait for, more after each useless trial; none once the job has become another one."""

    def __init__(self) -> None:
        self._left, self._next = 0, _FIRST_PATIENCE
        self._rate = 0.0

    @property
    def is_over(self) -> bool:
        return self._left == 0

    def pass_by(self, rate: float) -> None:
        if self._left and is_other_job(self._rate, rate):
            self._left, self._next = 1, _FIRST_PATIENCE
        self._left = max(0, self._left - 1)

    def wait(self, rate: float) -> None:
        self._left, self._next = self._next, min(2 * self._next, _MOST_PATIENCE)
        self._rate = rate
