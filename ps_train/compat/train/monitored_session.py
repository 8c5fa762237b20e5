"""The classic `MonitoredTrainingSession`: a session that initializes, recovers, saves and stops.

    with MonitoredTrainingSession(server.target, is_chief, "model", hooks=[StopAtStepHook(last_step=100)]) as session:
        while not session.should_stop():
            session.run(train_op)

Workers begin at most half a second after the chief has initialized the model.  A broken session goes back to a
checkpoint only where the model is lost (`sessions.py`).
"""

from __future__ import annotations

import functools
import inspect
import logging
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train.finish import FinishHook
from ps_train.compat.train.global_step import note_global_step
from ps_train.compat.train.global_step_runs import GlobalStepChanges
from ps_train.compat.train.sessions import SessionManager
from ps_train.compat.train.stop_at_step import exact

log = logging.getLogger(__name__)

_SIGNATURE = inspect.signature(v1.train.MonitoredTrainingSession)
_SUMMARY_STEPS, _SAVE_SECS = 100, 600


class MonitoredSession(v1.train.MonitoredSession):
    """A session with the arguments of TensorFlow's; hooks also find a script's own variable `global_step`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        note_global_step()
        super().__init__(*arguments, **options)


class SingularMonitoredSession(v1.train.SingularMonitoredSession):
    """A session with the arguments of TensorFlow's; hooks also find a script's own variable `global_step`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        note_global_step()
        super().__init__(*arguments, **options)


class TrainingSession(MonitoredSession):
    """A MonitoredSession that still evaluates after training has stopped.

    TensorFlow's raises RuntimeError for each call after the stop, for example for a loss that is printed after the
    last step.  Here such a call runs without hooks, and a call that trains raises OutOfRangeError, which ends the
    session's `with` block.

    Args:
      session_creator: makes the session.
      is_chief: True for the chief, which waits for the other workers at the end.
      hooks: called around each call.  TensorFlow's StopAtStepHook becomes the exact one.
      stop_grace_period_secs: seconds for which `close` waits for threads.
    """

    def __init__(self, session_creator: Any, is_chief: bool, hooks: list[Any], stop_grace_period_secs: float) -> None:
        self._recorder, hooks = _SessionRecorder(), [exact(hook) for hook in hooks]
        first = [self._recorder, FinishHook(is_chief, hooks)]
        super().__init__(session_creator, [*first, *hooks], stop_grace_period_secs)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs fetches as `tf.compat.v1.Session.run`.

        Raises:
          tf.errors.OutOfRangeError: training has stopped, and the call would train.
        """
        if self._recorder.is_over or not self.should_stop():
            return super().run(fetches, feed_dict, options, run_metadata)
        if self._recorder.changes.by(fetches):
            raise tf.errors.OutOfRangeError(
                None, None, "training has stopped, and this call would make another step: test session.should_stop()"
            )
        return self._recorder.session.run(fetches, feed_dict, options, run_metadata)


class _SessionRecorder(v1.train.SessionRunHook):
    """A hook that keeps the present session."""

    is_over = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.session = session
        self.changes = GlobalStepChanges(session.graph)

    def end(self, session: Any) -> None:
        self.is_over = True


class TrainingSessionCreator(v1.train.SessionCreator):
    """A creator of sessions for the chief or for another worker.

    Args:
      scaffold: the operations that initialize and save.
      master: the target.
      is_chief: whether it initializes and restores the model.
      config: of the sessions.
      checkpoint_dir: of the checkpoints that the chief restores.
      max_wait_secs: seconds for which a worker waits for the model.
    """

    def __init__(
        self, scaffold: Any, master: str, is_chief: bool, config: Any, checkpoint_dir: str | None, max_wait_secs: float
    ) -> None:
        self._scaffold, self._master, self._is_chief, self._config = scaffold, master, is_chief, config
        self._checkpoint_dir, self._max_wait_secs = checkpoint_dir, max_wait_secs
        self._manager: SessionManager | None = None

    def checkpoint(self) -> dict[str, str | None]:
        """Returns the argument of `prepare_session` that names the checkpoint to restore."""
        return {"checkpoint_dir": self._checkpoint_dir}

    def create_session(self) -> Any:
        """Returns a session with a model that is ready; the graph is finalized."""
        scaffold = self._scaffold
        if self._manager is None:
            scaffold.finalize()
            self._manager = SessionManager(
                local_init_op=scaffold.local_init_op,
                local_init_feed_dict=scaffold.local_init_feed_dict,
                ready_op=scaffold.ready_op,
                ready_for_local_init_op=scaffold.ready_for_local_init_op,
            )
        if not self._is_chief:
            return self._manager.wait_for_session(self._master, self._config, self._max_wait_secs)
        return self._manager.prepare_session(
            self._master,
            saver=scaffold.saver,
            **self.checkpoint(),
            config=self._config,
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )


@functools.wraps(v1.train.MonitoredTrainingSession)
def MonitoredTrainingSession(*arguments: Any, **options: Any) -> TrainingSession:
    """Returns a session for training as `tf.compat.v1.train.MonitoredTrainingSession`, with the same arguments."""
    given = _SIGNATURE.bind(*arguments, **options)
    given.apply_defaults()
    values = _with_defaults(given.arguments)
    scaffold = values["scaffold"] or v1.train.Scaffold()
    creator = TrainingSessionCreator(
        scaffold, values["master"], values["is_chief"], values["config"], values["checkpoint_dir"],
        values["max_wait_secs"],
    )  # fmt: skip
    hooks = _chief_hooks(values, scaffold) if values["is_chief"] else []
    hooks += values["hooks"] or []
    return TrainingSession(creator, values["is_chief"], hooks, values["stop_grace_period_secs"])


def _with_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments with what TensorFlow puts for those that are not given; see its documentation."""
    unset = _SIGNATURE.parameters["save_checkpoint_secs"].default

    def pair(steps: str, secs: str, usual_steps: int | None, usual_secs: int | None) -> dict[str, Any]:
        if values[steps] is unset and values[secs] is unset:
            return {steps: usual_steps, secs: usual_secs}
        return {name: None if values[name] is unset else values[name] for name in (steps, secs)}

    return {
        **values,
        **pair("save_summaries_steps", "save_summaries_secs", _SUMMARY_STEPS, None),
        **pair("save_checkpoint_steps", "save_checkpoint_secs", None, _SAVE_SECS),
    }


def _chief_hooks(values: dict[str, Any], scaffold: Any) -> list[Any]:
    """Returns the hooks that only the chief has: its own, and those that count, summarize and save."""
    hooks = list(values["chief_only_hooks"] or [])
    summary_dir = values["summary_dir"] or values["checkpoint_dir"]
    if summary_dir and (values["log_step_count_steps"] or 0) > 0:
        hooks.append(v1.train.StepCounterHook(values["log_step_count_steps"], output_dir=summary_dir))
    steps, secs = values["save_summaries_steps"], values["save_summaries_secs"]
    if summary_dir and ((steps or 0) > 0 or (secs or 0) > 0):
        hooks.append(
            v1.train.SummarySaverHook(save_steps=steps, save_secs=secs, output_dir=summary_dir, scaffold=scaffold)
        )
    steps, secs = values["save_checkpoint_steps"], values["save_checkpoint_secs"]
    if values["checkpoint_dir"] and ((steps or 0) > 0 or (secs or 0) > 0):
        saver = {"save_steps": steps, "save_secs": secs, "save_graph_def": values["save_graph_def"]}
        hooks.append(v1.train.CheckpointSaverHook(values["checkpoint_dir"], scaffold=scaffold, **saver))
    return hooks
