"""The classic hook that ends training at a step, and here at exactly this step, whatever the number of workers.

hooks = [StopAtStepHook(last_step=100)]

TensorFlow's hook lets each worker look and then begin a step, so a job of three workers goes up to two steps too far.
This one takes its steps from the ledger of the job (`step_ledger.py`).  In a process without a cluster it does as
TensorFlow's.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import LostTaskError
from ps_train.base.private_tf import stop_settings
from ps_train.cluster.membership.step_ledger import StepLedger
from ps_train.compat.train.global_step import get_global_step
from ps_train.compat.train.global_step_runs import GlobalStepChanges
from ps_train.compat.train.server import ScriptTask, current_task, num_workers

log = logging.getLogger(__name__)

_TAKEN_SECS = 0.2
"""Seconds of training for which a worker takes steps at once."""

_MOST_STEPS = 64

_ANSWER_SECS = 30.0
"""Seconds that a ps may take to give steps on a busy machine.  A shorter limit breaks sessions again and again there.

A ps that is gone refuses connections at once.
"""


class StopAtStepHook(v1.train.StopAtStepHook):
    """A hook that stops training after a number of steps, or at a global step; one of them must be given.

    Args:
      num_steps: steps of the job from the begin of this session on.
      last_step: the global step at which training ends.

    Raises:
      ValueError: both are given, or none.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        super().__init__(num_steps, last_step)
        self._steps, self._last = num_steps, last_step
        self._task: ScriptTask | None = None
        self._ledger: StepLedger | None = None
        self._held = 0
        self._began = 0.0
        self._step_secs = 0.0

    def begin(self) -> None:
        """Finds the global step; raises RuntimeError if the graph has none."""
        step = get_global_step()
        if step is None:
            raise RuntimeError("the graph has no global step, which StopAtStepHook needs: create it before the session")
        with tf.name_scope("stop_at_step"):
            self._read = tf.identity(step.read_value() if hasattr(step, "read_value") else step)
        self._changes = GlobalStepChanges(v1.get_default_graph())

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Takes the first steps; a job that has reached its last step is stopped before any step."""
        step = self._step_in(session)
        if self._last is None:
            assert self._steps is not None
            self._last = step + self._steps
        task = self._task = current_task()
        self._held, self._ledger = 0, None
        # Synchronous updates are exact by themselves, and a worker that waits for a step would stop them.
        if task is None or is_synchronous(session.graph):
            if step >= self._last and task is not None:
                coord.request_stop()
            return
        owner = f"{task.cluster.task}/{task.presence.process_id}"
        with _lost_ps():
            store = task.presence.connected_store(0, _ANSWER_SECS)
            self._ledger = StepLedger(store, owner, self._last, num_workers())
            self._ledger.join(lambda: self._step_in(session))
        self._held = self._take(session)
        if not self._held:
            log.info("global step %d: the last step %d is reached", self._step_in(session), self._last)
            coord.request_stop()

    def before_run(self, run_context: Any) -> Any:
        """Notes the time of a step, and reads the global step where no ledger counts it."""
        self._began = time.monotonic()
        return v1.train.SessionRunArgs(self._read) if self._ledger is None else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts a call that trains, and requests the stop when there are no further steps."""
        assert self._last is not None
        session = run_context.session
        if self._ledger is None:
            # The step was read before, during or after the call; near the end it is read again.
            if run_values.results + 1 >= self._last and self._step_in(session) >= self._last:
                run_context.request_stop()
            return
        if not self._changes.by(run_context.original_args.fetches):
            return
        self._step_secs = time.monotonic() - self._began
        self._held -= 1
        self._ledger.made(1)
        if self._held <= 0:
            self._held = self._take(session)
            if not self._held:
                run_context.request_stop()

    def end(self, session: Any) -> None:
        """Gives back the steps that are left."""
        self._give_back()

    def finish(self, session: Any) -> bool:
        """Does the work of `end` earlier; returns True if the last step is made."""
        self._give_back()
        return self._last is not None and self._step_in(session) >= self._last

    def _give_back(self) -> None:
        if self._ledger is not None:
            with contextlib.suppress(LostTaskError):
                self._ledger.give_back(max(0, self._held))
            self._held = 0

    def _take(self, session: Any) -> int:
        assert self._ledger is not None and self._task is not None
        wanted = min(_MOST_STEPS, max(1, int(_TAKEN_SECS / self._step_secs))) if self._step_secs else 1
        with _lost_ps():
            return self._ledger.take_or_wait(wanted, lambda: self._step_in(session), self._task.presence.is_gone)

    def _step_in(self, session: Any) -> int:
        return int(session.run(self._read))


def exact(hook: Any) -> Any:
    """Returns the exact hook for a StopAtStepHook of TensorFlow, and any other hook as it is."""
    return StopAtStepHook(*stop_settings(hook)) if type(hook) is v1.train.StopAtStepHook else hook


def is_synchronous(graph: tf.Graph) -> bool:
    """Returns whether a graph has a SyncReplicasOptimizer, of ps_train or of TensorFlow."""
    local = graph.get_collection(v1.GraphKeys.LOCAL_VARIABLES)
    return any(variable.op.name.endswith("sync_rep_local_step") for variable in local)


@contextlib.contextmanager
def _lost_ps() -> Any:
    """Turns the error of a lost ps into TensorFlow's, after which a MonitoredSession connects again."""
    try:
        yield
    except LostTaskError as error:
        raise tf.errors.UnavailableError(None, None, str(error)) from None
