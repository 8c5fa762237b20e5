"""What a training task knows of the ps: who answers, as which process, and in which world.

    lives = Lives(["ps:0 (a:2222)", "ps:1 (b:2222)"], ["4f1c", "a1b2"], patience_secs=60)
    lives.silent(1, "does not answer")                   # "lost ps:1 (b:2222): does not answer; waiting ..."
    lives.heard(1, "77d0", world="", asked=now)          # "ps:1 (b:2222) is back, as a new process ..."
    lives.left(world, since)                             # True: that ps is in no world, since it was restarted

A world is one unbroken state of the model: it ends when a ps loses its part (`notices.Ready`).  Pure: fed with what the
heart hears, and the time; each ps's facts are written by one thread only.
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
    """Args:
    names, incarnations: of the ps, in order, as they were first reached.
    patience_secs: what to say about how long a silent one is waited for.
    """

    def __init__(self, names: Sequence[str], incarnations: Sequence[str], patience_secs: float) -> None:
        self._states = [_PsState(*pair) for pair in zip(names, incarnations, strict=True)]
        self._patience_secs = patience_secs

    def silent(self, index: int, cause: str) -> str | None:
        """A ps did not answer; returns what is to be said, once."""
        life = self._states[index]
        if not life.answers:
            return None
        life.answers = False
        return f"lost {life.name}: {cause}; waiting up to {self._patience_secs:g}s for it (recovery_secs)"

    def record_answer(self, index: int, incarnation: str, world: str, asked: float) -> str | None:
        """A ps answered what it was asked at that time; returns what is to be said, if anything."""
        life = self._states[index]
        answered, known = life.answers, life.incarnation
        life.incarnation, life.generation, life.last_asked, life.answers = incarnation, world, asked, True
        if incarnation == known:
            return None if answered else f"{life.name} answers again"
        if answered:
            return f"lost {life.name}: it was restarted; waiting for the chief to restore what it had"
        return f"{life.name} is back, as a new process; waiting for the chief to restore what it had"

    def record_move(self, index: int, name: str) -> str:
        """A ps is at another address; returns what is to be said."""
        before, self._states[index].name = self._states[index].name, name
        return f"{before} is now {name} (cluster_file)"

    def incarnations(self) -> list[str]:
        """The process that answered last as each ps."""
        return [life.incarnation for life in self._states]

    def is_silent(self, index: int) -> bool:
        return not self._states[index].answers

    def silent_ones(self) -> list[str]:
        """The names of those that do not answer."""
        return [life.name for life in self._states if not life.answers]

    def all_answered_since(self, since: float) -> bool:
        """Whether every ps has answered what it was asked after that time."""
        return all(life.answers and life.last_asked > since for life in self._states)

    def generation_changed(self, world: str, since: float) -> bool:
        """Whether some ps, asked after that time, was not in that world."""
        return any(life.generation != world and life.last_asked > since and life.answers for life in self._states)
