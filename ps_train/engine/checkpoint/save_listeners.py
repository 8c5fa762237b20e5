"""The user's listeners of checkpoints, `tf.compat.v1.train.CheckpointSaverListener` objects.

listeners = SaveListeners(model.saving_listeners(), stop=print)     # while the graph may still be extended
listeners.before(session, 100), listeners.after(session, 100)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.lifecycle import record_event
from ps_train.base.user_code import shown, user_code


class SaveListeners:
    """The listeners of the chief's checkpoints.

    Args:
      stop: called with the name of a listener that requests the end of the training.

    Raises:
      ModelError: one is not a listener, or its `begin` raised an exception.
    """

    def __init__(self, listeners: Sequence[Any], stop: Callable[[str], None]) -> None:
        for listener in listeners:
            if not isinstance(listener, v1.train.CheckpointSaverListener):
                raise ModelError(
                    f"saving_listeners() returned {shown(listener)}: return tf.compat.v1.train.CheckpointSaverListener "
                    "objects."
                )
        self._listeners, self._stop = listeners, stop
        self._tell("begin")

    def before(self, session: v1.Session, step: int) -> None:
        """Tells that the checkpoint of a step will be written; called in the thread that writes."""
        self._tell("before_save", session, step)

    def after(self, session: v1.Session, step: int) -> None:
        """Tells that the checkpoint of a step is written, which ends the training if a listener returns True."""
        record_event("saved", f"checkpoint of step {step}")
        for name, result in self._tell("after_save", session, step):
            if result is True:
                self._stop(name)

    def end(self, session: v1.Session, step: int) -> None:
        """Tells the end of the training."""
        self._tell("end", session, step)

    def _tell(self, method: str, *arguments: Any) -> list[tuple[str, Any]]:
        results = []
        for listener in self._listeners:
            name = type(listener).__name__
            with user_code(f"{name}.{method}()"):
                results.append((name, getattr(listener, method)(*arguments)))
        return results


NO_LISTENERS = SaveListeners((), print)
"""The listeners of a job whose model has none."""
