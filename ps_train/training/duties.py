"""The interface of what a replica does beside making steps."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow.compat.v1 as v1


class Duties(abc.ABC):
    """What a replica does beside making steps; the chief's are more than a worker's."""

    @property
    def save_steps(self) -> int:
        """Bursts end at multiples of this number of steps; 0: anywhere."""
        return 0

    @abc.abstractmethod
    def agree(self) -> None:
        """Compares the job with the chief's before anything is built; raises RefusedError."""

    @abc.abstractmethod
    def hooks(self) -> list[Any]:
        """Returns the session hooks; called while the graph of the step can still be added to."""

    @abc.abstractmethod
    def prepare(self, session: v1.Session) -> int:
        """Makes a new session ready to train; returns the global step at which training begins."""

    @abc.abstractmethod
    def train(self, session: Any) -> None:
        """Trains in a session; a chief returns at the end of the job."""

    @abc.abstractmethod
    def before_release(self) -> None:
        """Ends its own work in a session that was lost."""
