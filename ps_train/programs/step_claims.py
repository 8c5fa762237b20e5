"""Claims on steps, with which several workers together make exactly `max_steps` steps.

A counter on ps 0 has the number of claimed steps.  A worker claims a step before it makes one.  A step that was claimed
and not made is given back.  A worker without a claim waits until all claimed steps are made.  So the chief saves the
last one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

log = logging.getLogger(__name__)

_POLL_SECS = 0.05
RECLAIM_SECS = 10.0
"""Seconds without a step after which the chief takes claims as lost with their worker."""

GIVE_UP_SECS = 60.0
"""Seconds without a step after which a worker no longer waits for the chief."""


class StepClaims(v1.train.SessionRunHook):
    """The claims of one worker; also a hook, by which the chief starts the counter in every new session.

    Args:
      max_steps: the global step at which training ends.
      is_chief: True for the chief.
    """

    def __init__(self, max_steps: int, is_chief: bool) -> None:
        self._max_steps, self._is_chief, self._has_begun = max_steps, is_chief, False
        self._global_step = v1.train.get_global_step()
        with v1.device("/job:ps/task:0/device:CPU:0"):
            # In no collection: neither saved nor initialized with the model.
            counter = v1.Variable(
                0, name="ps_train/claimed_steps", dtype=tf.int64, trainable=False, collections=[], use_resource=True
            )
            self._claim = tf.raw_ops.ResourceCountUpTo(resource=counter.handle, limit=max_steps, T=tf.int64)
            self._give_back = counter.assign_sub(1, read_value=False)
            self._is_started = counter.is_initialized()
            self._start = counter.assign(tf.cast(self._global_step, tf.int64), read_value=False)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the counter at the global step, on the chief; a later session keeps it, unless it was lost."""
        if self._is_chief and not (self._has_begun and session.run(self._is_started)):
            session.run(self._start)
        self._has_begun = True

    def step(self, fetches: Any) -> Callable[[Any], Any]:
        """Returns the function of one step for `MonitoredSession.run_step_fn`; it stops when no step is left."""

        def make_step(step_context: Any) -> Any:
            if not self.claim(step_context.session):
                step_context.request_stop()
            try:
                return step_context.run_with_hooks(fetches)
            except (tf.errors.OutOfRangeError, StopIteration):  # the input has ended, or a hook has ended the training
                step_context.session.run(self._give_back)
                raise

        return make_step

    def claim(self, session: v1.Session) -> bool:
        """Claims a step.

        Returns:
          False if all steps are made.
        """
        reached, since = -1, time.monotonic()
        while True:
            try:
                session.run(self._claim)
                return True
            except tf.errors.OutOfRangeError:  # all are claimed
                step = int(session.run(self._global_step))
            except (
                tf.errors.FailedPreconditionError,
                tf.errors.NotFoundError,
            ):  # the chief has not started the counter
                step, since = reached, time.monotonic()
            if step >= self._max_steps:
                return False
            if step > reached:
                reached, since = step, time.monotonic()
            silent_secs = time.monotonic() - since
            if self._is_chief and silent_secs > RECLAIM_SECS:
                log.warning("claimed steps were not made for %.0fs; they are made again", silent_secs)
                session.run(self._start)
            elif silent_secs > GIVE_UP_SECS:
                log.warning("no step was made for %.0fs; training ends here at global step %d", silent_secs, step)
                return False
            time.sleep(_POLL_SECS)
