"""The classic `Supervisor`: a session for training with a service that saves.

    supervisor = Supervisor(is_chief=is_chief, logdir="model", global_step=global_step)
    with supervisor.managed_session(server.target) as session:
        ...

Workers look for the model twice a second, and a broken session goes back to a checkpoint only where the model is lost
(`sessions.py`).  A synchronous optimizer of the graph is started and ended with the session.
"""

from __future__ import annotations

import inspect
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.compat.train.global_step import note_global_step
from ps_train.compat.train.sessions import SessionManager
from ps_train.compat.train.sync_replicas import SyncReplicasOptimizer, optimizer_of

_SIGNATURE = inspect.signature(v1.train.Supervisor.__init__)


class Supervisor(v1.train.Supervisor):
    """A supervisor as `tf.compat.v1.train.Supervisor`, with the same arguments."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        given = _SIGNATURE.bind(self, *arguments, **options)
        given.apply_defaults()
        values = dict(given.arguments)
        del values["self"]
        self._of_chief = bool(values["is_chief"])
        self._model = values["graph"] or v1.get_default_graph()
        note_global_step(self._model)  # before TensorFlow looks for it
        if values["session_manager"] is None:
            values["session_manager"] = _LateSessionManager(values)
        super().__init__(**values)
        if isinstance(self.session_manager, _LateSessionManager):
            self.session_manager.complete(self, self._model)

    def prepare_or_wait_for_session(self, *arguments: Any, **options: Any) -> Any:
        """Returns a session with a model that is ready; the arguments are TensorFlow's."""
        session = super().prepare_or_wait_for_session(*arguments, **options)
        optimizer = optimizer_of(session.graph)
        if optimizer is not None:
            optimizer.start(session, self._of_chief, self.coord)
            _leave_at_close(session, optimizer)
        return session

    def stop(self, *arguments: Any, **options: Any) -> None:
        """Ends synchronous training for this worker, then stops the services; the arguments are TensorFlow's."""
        optimizer = optimizer_of(self._model)
        if optimizer is not None:
            optimizer.finish()
        super().stop(*arguments, **options)


class _LateSessionManager(SessionManager):
    """A session manager that gets its operations from a supervisor, which makes them later."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._options = {
            "recovery_wait_secs": values["recovery_wait_secs"],
            "local_init_run_options": values["local_init_run_options"],
        }
        self._local_init_op = values["local_init_op"]

    def complete(self, supervisor: Any, graph: Any) -> None:
        """Takes the operations of the supervisor for a graph."""
        local_init_op = self._local_init_op
        if local_init_op is supervisor.USE_DEFAULT:  # the supervisor has put it there
            local_init_op = next(iter(graph.get_collection(v1.GraphKeys.LOCAL_INIT_OP)), None)
        super().__init__(
            local_init_op=local_init_op,
            ready_op=supervisor.ready_op,
            ready_for_local_init_op=supervisor.ready_for_local_init_op,
            graph=graph,
            **self._options,
        )


def _leave_at_close(session: Any, optimizer: SyncReplicasOptimizer) -> None:
    """Makes the chief lead until the others have left, before its session closes."""
    close = session.close

    def close_last() -> None:
        optimizer.finish()
        close()

    session.close = close_last
