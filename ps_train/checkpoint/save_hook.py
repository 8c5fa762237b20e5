"""The chief's periodic checkpoints: one at the start, then one every few steps or seconds.

`training/chief_duties.py` writes the last checkpoint.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.errors import SaveError

log = logging.getLogger(__name__)


class Saves(Protocol):
    """The part of `checkpoint.async_saver.AsyncSaver` that the hook uses."""

    @property
    def busy(self) -> bool:
        """True while a checkpoint is being written."""

    def start(self, session: v1.Session) -> None:
        """Starts a checkpoint."""

    def poll(self) -> int | None:
        """Returns the step of the checkpoint that was written since the last call, or None; raises SaveError."""

    def warm_up(self, session: v1.Session) -> None:
        """Prepares for the first checkpoint."""


class SaveHook(v1.train.SessionRunHook):
    """A hook that starts a checkpoint when one is due and the previous one is written.

    Args:
      saves: the saver.
      step: int64 scalar, the global step after the update.
      every_steps: steps between checkpoints; 0 disables this rule.
      every_secs: seconds between checkpoints; 0 disables this rule.

    Attributes:
      step: the last saved step.
    """

    def __init__(self, saves: Saves, step: tf.Tensor, every_steps: int, every_secs: float) -> None:
        self._saves, self._global_step = saves, step
        self._every_steps, self._every_secs = every_steps, every_secs
        self.step = self._tried = 0
        self._time = 0.0
        self._observed = 0

    def started(self, step: int, saved: int) -> None:
        """Prepares for training from a step.

        Args:
          step: the first step.
          saved: step of the last checkpoint, which may be an earlier one.
        """
        self._tried, self.step = step, saved
        self._time = time.monotonic()
        self._observed = 0

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetch of the hook: the step."""
        return v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Starts a checkpoint if one is due at the fetched step."""
        self.observe(int(run_values.results), run_context.session)

    def observe(self, step: int, session: v1.Session) -> None:
        """Starts a checkpoint if one is due."""
        if self._saves.busy:
            return
        self._observed += 1
        if self._observed == 2:  # not at the session's first step, so warming up does not delay it
            self._saves.warm_up(session)
        self.poll()
        if self._due(step):
            self._tried, self._time = step, time.monotonic()
            self._saves.start(session)
            self.poll()

    def poll(self) -> None:
        """Updates `step` if the last checkpoint is written; logs a warning if writing failed.

        Training continues, because a full or missing disk may be available again for the next checkpoint.
        """
        try:
            self.step = self._saves.poll() or self.step
        except SaveError as error:
            log.warning("%s; training goes on, the last checkpoint is that of step %d", error, self.step)

    def _due(self, step: int) -> bool:
        if self._every_steps and step // self._every_steps > self._tried // self._every_steps:
            return True
        return bool(self._every_secs) and time.monotonic() - self._time >= self._every_secs and step > self.step
