"""The interface of the duties of a replica beside making steps."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow.compat.v1 as v1


class Duties(abc.ABC):
    """Duties of a replica beside making steps; the chief has more than a worker."""

    @property
    def save_steps(self) -> int:
        """Returns the number of steps at whose multiples bursts end; 0 if they may end anywhere."""
        return 0

    summary_steps = 0
    """The number of steps at whose multiples bursts end because the model's summaries are due; 0 if it has none."""

    @abc.abstractmethod
    def agree(self) -> None:
        """Compares the job with the chief's before anything is built; raises RefusedError."""

    @abc.abstractmethod
    def chief_only_hooks(self) -> list[Any]:
        """Returns the session hooks that only the chief has; called before the graph of the step is finalized."""

    @abc.abstractmethod
    def prepare(self, session: v1.Session) -> int:
        """Makes a new session ready to train; returns the global step at which training begins."""

    @abc.abstractmethod
    def train(self, session: Any) -> None:
        """Trains in a session; a chief returns at the end of the job."""

    @abc.abstractmethod
    def before_release(self) -> None:
        """Ends the duties' own work in a lost session."""
