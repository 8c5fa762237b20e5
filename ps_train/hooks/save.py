"""The chief's checkpoints: one at the start, then every so many steps or seconds.  The last one is the role's."""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

import tensorflow.compat.v1 as v1

from ps_train.errors import SaveError
from ps_train.hooks.fetches import StepFetches

log = logging.getLogger(__name__)


class Saves(Protocol):
    """What the hook needs of `snapshots.Snapshots`."""

    @property
    def busy(self) -> bool: ...

    def start(self, session: v1.Session) -> None: ...

    def poll(self) -> int | None: ...

    def warm_up(self, session: v1.Session) -> None: ...


class SaveHook(v1.train.SessionRunHook):
    """Begins a checkpoint when it is due and the one before is written.

    Args:
      every_steps, every_secs: the two rules; zero switches one off.

    Attributes:
      step: the last that was saved.
    """

    def __init__(self, saves: Saves, reading: StepFetches, every_steps: int, every_secs: float) -> None:
        self._saves, self._reading = saves, reading
        self._every_steps, self._every_secs = every_steps, every_secs
        self.step = self._tried = 0
        self._time = 0.0
        self._observed = 0

    def started(self, step: int, saved: int) -> None:
        """Training begins at that step; the last checkpoint is that of `saved`, which may be an earlier one."""
        self._tried, self.step = step, saved
        self._time = time.monotonic()
        self._observed = 0

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        return self._reading.args()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.observe(int(run_values.results["step"]), run_context.session)

    def observe(self, step: int, session: v1.Session) -> None:
        """Saves if it is time."""
        if self._saves.busy:
            return
        self._observed += 1
        if self._observed == 2:  # in this session; the first step is waited for
            self._saves.warm_up(session)
        self.look()
        if self._due(step):
            self._tried, self._time = step, time.monotonic()
            self._saves.start(session)
            self.look()

    def look(self) -> None:
        """What has become of the last one.  A disk that is full, or gone, is no reason not to train: it may be back
        next time."""
        try:
            self.step = self._saves.poll() or self.step
        except SaveError as error:
            log.warning("%s; training goes on, the last checkpoint is that of step %d", error, self.step)

    def _due(self, step: int) -> bool:
        if self._every_steps and step // self._every_steps > self._tried // self._every_steps:
            return True
        return bool(self._every_secs) and time.monotonic() - self._time >= self._every_secs and step > self.step
