"""Where two threads of a worker meet at each step: that of the program, and that of the engine.

    exchange = Exchange()
    values = exchange.first_values()                # the program
    gradients = exchange.next_gradients(values)     # the engine: None when the program has ended
    values = exchange.apply(gradients)              # the program: the values after the step

A step of the engine begins with a pull and ends with a push.  So the engine waits between the two for the program,
which waits for the next pull.  It knows numpy arrays, and neither TensorFlow nor Keras.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ps_train.base.errors import PsTrainError, TrainingError
from ps_train.base.user_code import describe

Arrays = Sequence[np.ndarray[Any, Any]]


class Exchange:
    """The values and gradients of one worker."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: Arrays | None = None
        self._gradients: Arrays | None = None
        self._turn = 0
        self._has_ended = False
        self._closed: BaseException | None = None

    def next_gradients(self, values: Arrays) -> Arrays | None:
        """Gives the program values, and returns its next gradients; None when the program has ended.

        Called in a step of the engine.  A call of a session that was lost may still wait here while the next session
        calls: then it must not take the gradients of that one.

        Args:
          values: they are the caller's again after the call.

        Raises:
          TrainingError: the session of the call was lost.
        """
        copied = [np.array(value) for value in values]  # TensorFlow may use their memory again
        with self._changed:
            self._turn += 1
            turn, self._values = self._turn, copied
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._gradients is not None or self._has_ended or self._turn != turn)
            if self._turn != turn:
                raise TrainingError("the session of this step was lost")
            found, self._gradients = self._gradients, None
            return found

    def first_values(self) -> Arrays:
        """Waits for the values with which the training begins.

        Raises:
          PsTrainError: the engine has ended.
        """
        with self._changed:
            return self._next_values()

    def apply(self, gradients: Arrays) -> Arrays:
        """Gives the engine gradients; returns the values after the step.

        Raises:
          PsTrainError: the engine has ended.
        """
        with self._changed:
            self._values, self._gradients = None, gradients
            self._changed.notify_all()
            return self._next_values()

    def _next_values(self) -> Arrays:
        self._changed.wait_for(lambda: self._values is not None or self._closed is not None)
        if self._values is not None:
            return self._values
        assert self._closed is not None
        if isinstance(self._closed, PsTrainError):
            raise self._closed
        raise TrainingError(f"the training of this worker failed: {describe(self._closed)}") from self._closed

    def end(self) -> None:
        """The program has ended."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def close(self, cause: BaseException | None = None) -> None:
        """The engine has ended.

        Args:
          cause: its error; None: the job is done.
        """
        with self._changed:
            self._closed = cause or TrainingError("the job has ended, and so it takes no more gradients")
            self._changed.notify_all()
