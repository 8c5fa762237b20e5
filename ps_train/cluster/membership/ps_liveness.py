"""Liveness of the ps, as one training task sees it: answering or silent, its process, and its generation.

    liveness = PsLiveness(["ps:0 (a:2222)", "ps:1 (b:2222)"], ["4f1c", "a1b2"], recovery_timeout_secs=60)
    liveness.record_silence(1, "does not answer")                  # "lost ps:1 (b:2222): does not answer; waiting ..."
    liveness.record_answer(1, "77d0", generation="", asked=now)    # "ps:1 (b:2222) is back, as a new process ..."
    liveness.generation_changed(generation, since)                 # True: a restarted ps has no generation

A generation is an unbroken life of the model's state: it ends when a ps loses its part (`records.ModelReady`).
Pure: the heartbeat passes the answers and the time.  Only one thread writes the facts of each ps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass
class _PsState:
    name: str
    incarnation: str
    answers: bool = True
    last_asked: float = 0.0
    generation: str = ""


class PsLiveness:
    """Facts about each ps, by index.

    Args:
      names: how messages name each ps, in order.
      incarnations: the process that first answered as each ps, in order.
      recovery_timeout_secs: seconds for which a silent ps is waited for; used in messages only.
    """

    def __init__(self, names: Sequence[str], incarnations: Sequence[str], recovery_timeout_secs: float) -> None:
        self._states = [_PsState(*pair) for pair in zip(names, incarnations, strict=True)]
        self._recovery_secs = recovery_timeout_secs

    def record_silence(self, index: int, cause: str) -> str | None:
        """Records that a ps did not answer; returns a line to log the first time, else None."""
        state = self._states[index]
        if not state.answers:
            return None
        state.answers = False
        return f"lost {state.name}: {cause}; waiting up to {self._recovery_secs:g}s for it (recovery_timeout_secs)"

    def record_answer(self, index: int, incarnation: str, generation: str, asked: float) -> str | None:
        """Records an answer of a ps; returns a line to log where something has changed, else None.

        Args:
          index: of the ps.
          incarnation: the process that answered.
          generation: of the model's state on that ps; "" where it has none.
          asked: when it was asked, in seconds of a monotonic clock.
        """
        state = self._states[index]
        answered, known = state.answers, state.incarnation
        state.incarnation, state.generation, state.last_asked, state.answers = incarnation, generation, asked, True
        if incarnation == known:
            return None if answered else f"{state.name} answers again"
        if answered:
            return f"lost {state.name}: it was restarted; waiting for the chief to restore its variables"
        return f"{state.name} is back, as a new process; waiting for the chief to restore its variables"

    def record_move(self, index: int, name: str) -> str:
        """Records that a ps is at another address; returns a line to log."""
        before, self._states[index].name = self._states[index].name, name
        return f"{before} is now {name} (cluster_file)"

    def incarnations(self) -> list[str]:
        """Returns, for each ps, the process that answered last."""
        return [state.incarnation for state in self._states]

    def is_silent(self, index: int) -> bool:
        """Returns True if the ps of this index does not answer."""
        return not self._states[index].answers

    def silent_ps(self) -> list[str]:
        """Returns the names of the ps that do not answer."""
        return [state.name for state in self._states if not state.answers]

    def all_answered_since(self, since: float) -> bool:
        """Returns whether every ps has answered a request made after `since`."""
        return all(state.answers and state.last_asked > since for state in self._states)

    def generation_changed(self, generation: str, since: float) -> bool:
        """Returns whether some ps, asked after `since`, was not in that generation."""
        return any(
            state.generation != generation and state.last_asked > since and state.answers for state in self._states
        )
