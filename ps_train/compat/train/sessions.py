"""The classic session manager: it goes back to a checkpoint only if the model is lost, and says so.

    manager = SessionManager(local_init_op=..., ready_op=..., ready_for_local_init_op=...)
    session = manager.prepare_session(server.target, init_op, saver, checkpoint_dir)     # the chief's
    session = manager.wait_for_session(server.target)                                    # another worker's

The sessions repeat calls that a task has refused because of their id.

TensorFlow's chief restores the last checkpoint whenever its session breaks, even if every ps still has the model, and
its workers look for the model every 30 s.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, LostTaskError
from ps_train.cluster.membership.records import TaskState, task_statuses
from ps_train.cluster.sessions.calls import until_accepted
from ps_train.compat.train.agreed_variables import agree
from ps_train.compat.train.global_step import get_global_step
from ps_train.compat.train.server import ScriptTask, current_task, session_config

log = logging.getLogger(__name__)

WAIT_SECS = 0.5
_TENSORFLOWS_WAIT_SECS = 30

LOOK_SECS = 5.0
"""Seconds of waiting for the chief's model after which a worker looks whether any task can make it."""

_MAKES_NO_MODEL = (TaskState.PREPARING, TaskState.INPUT_ENDED, TaskState.LEFT, TaskState.SERVING)
"""States of tasks that wait for the model, or have ended; one that failed may be started again."""


class SessionManager(v1.train.SessionManager):
    """A session manager as `tf.compat.v1.train.SessionManager`, with the same arguments.

    A wait of 30 s between two looks for the model, TensorFlow's default, becomes half a second.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Any = None,
        recovery_wait_secs: float = _TENSORFLOWS_WAIT_SECS,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        wait_secs = WAIT_SECS if recovery_wait_secs == _TENSORFLOWS_WAIT_SECS else recovery_wait_secs
        super().__init__(
            local_init_op, ready_op, ready_for_local_init_op, graph, wait_secs, local_init_run_options,
            local_init_feed_dict,
        )  # fmt: skip
        self._init_op, self._feed = local_init_op, local_init_feed_dict
        self._model = graph or v1.get_default_graph()
        self._ready_ops = [op for op in (ready_for_local_init_op, ready_op) if op is not None]
        self._prepared = False

    def prepare_session(self, master: str, *arguments: Any, **options: Any) -> Any:
        """Returns a session with a model that is ready: as it is on the ps, restored, or initialized.

        Args:
          master: the target.
          *arguments: as of TensorFlow's.
          **options: as of TensorFlow's.
        """
        options["config"] = session_config(master, options.get("config"), self._model)
        _agree(master, self._model)
        session = self._with_present_model(master, options["config"])
        if session is None:
            session = _accepted(super().prepare_session(master, *arguments, **options))
            if self._prepared and master:
                log.warning("a ps has lost the model; training continues from global step %s", self._step_in(session))
        self._prepared = True
        return session

    def wait_for_session(self, master: str, config: Any = None, max_wait_secs: float = float("inf")) -> Any:
        """Returns a session once the chief has made the model ready.

        Args:
          master: the target.
          config: of the session.
          max_wait_secs: seconds after which it raises DeadlineExceededError.

        Raises:
          ConfigError: no task makes the model; all others have ended, or wait as well.
        """
        config = session_config(master, config, self._model)
        task, deadline, before = current_task(), time.monotonic() + max_wait_secs, ""
        if task is not None:
            task.presence.announce(TaskState.PREPARING)
        while True:
            left = deadline - time.monotonic()
            _agree(master, self._model, may_tell=False)  # before a wait for a variable that no task has on this ps
            try:
                session = _accepted(super().wait_for_session(master, config, min(left, LOOK_SECS)))
                _agree(master, self._model)
                if task is not None:
                    task.presence.announce(TaskState.TRAINING)
                return session
            except tf.errors.DeadlineExceededError:
                if left <= LOOK_SECS:
                    raise
            reason = "" if task is None else _reason_of_no_chief(task)
            if reason and reason == before:  # twice, since a task may just go from one session to another
                raise ConfigError(reason)
            before = reason

    def _with_present_model(self, master: str, config: Any) -> Any:
        """Returns a session if all ps have the whole model; else None.  Only ps of a cluster can have it already."""
        if not master or not self._ready_ops:
            return None
        session = Session(master, self._model, config)
        if not self._is_ready(session, self._ready_ops[0]):
            session.close()
            return None
        if self._init_op is not None:
            session.run(self._init_op, self._feed)
        if not self._is_ready(session, self._ready_ops[-1]):
            session.close()
            return None
        log.info("the ps have the model at global step %s, where training continues", self._step_in(session))
        return session

    @staticmethod
    def _is_ready(session: Any, op: Any) -> bool:
        try:
            return np.size(session.run(op)) == 0
        except tf.errors.FailedPreconditionError:
            return False

    def _step_in(self, session: Any) -> Any:
        step = get_global_step(self._model)
        return "unknown" if step is None else v1.train.global_step(session, step)


def _agree(master: str, graph: Any, may_tell: bool = True) -> None:
    """Compares the graph's variables with those of the other tasks, if the session is one of this process's task."""
    task = current_task()
    if task is not None and master == task.target:
        agree(task, graph, may_tell)


def _reason_of_no_chief(task: ScriptTask) -> str:
    """Returns why no task can make the model that this one waits for; "" while one may."""
    try:
        statuses = {status.task: status.state for status in task_statuses(task.presence.connected_store(0).items())}
    except LostTaskError:
        return ""
    others = {worker: statuses.get(worker) for worker in task.cluster.workers() if worker != task.cluster.task}
    if any(state not in _MAKES_NO_MODEL for state in others.values()):
        return ""
    told = [
        f"{worker} {'waits too' if state == TaskState.PREPARING else 'has ended'}" for worker, state in others.items()
    ]
    return (
        f"{task.cluster.task} waits for a model that no task makes: {', '.join(told) or 'there is no other task'}; one "
        "task must be the chief (is_chief=True), which the program may know by another name, as with "
        "`python -m ps_train run --chief=master`."
    )


class _RepeatingSession(v1.Session):
    """A session that repeats calls which a task has refused because of their id, as `cluster/sessions/calls.py` says.

    A queue that is filled by one call for each example makes enough calls for that within seconds.  TensorFlow's
    MonitoredSession repeats them too, in a new session; its Supervisor ends the program.
    """

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs as the base class does."""
        return until_accepted(super().run, fetches, feed_dict, options, run_metadata)

    def make_callable(self, *arguments: Any, **options: Any) -> Callable[..., Any]:
        """Returns a function that makes a call, with the arguments of the base class; threads of queues use it."""
        return functools.partial(until_accepted, super().make_callable(*arguments, **options))


def _accepted(session: Any) -> Any:
    """Returns a session that TensorFlow has made, which repeats refused calls from now on."""
    if type(session) is v1.Session:
        session.__class__ = _RepeatingSession
    return session


class _AnySession(type):
    """The class of `Session`, for which every session of TensorFlow is one: hooks and managers give such."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, v1.Session) if cls is Session else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, v1.Session) if cls is Session else super().__subclasscheck__(subclass)


class Session(_RepeatingSession, metaclass=_AnySession):
    """A session as `tf.compat.v1.Session` that waits for no worker of the cluster without work in its graph.

    Args:
      target: the target; "" for this process.
      graph: the graph; None for the default one.
      config: a `ConfigProto` or None.
    """

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        model = graph or v1.get_default_graph()
        config = session_config(target, config, model)
        _agree(target, model)
        super().__init__(target, graph, config)
