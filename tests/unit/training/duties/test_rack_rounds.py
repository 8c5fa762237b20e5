"""Whom no round of racks waits for."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from ps_train.cluster.topology import Topology
from ps_train.engine.updates.modes.base import Removal
from ps_train.training.duties.rack_rounds import RackRounds
from ps_train.training.duties.rounds import FlatRounds

RACKS = Topology(
    ("a", "b"),
    (("worker:0", "worker:2"), ("worker:1", "worker:3")),
    {"worker:0": "a", "worker:1": "b", "worker:2": "a", "worker:3": "b"},
)


class Session:
    """A session that remembers who was removed, and may refuse."""

    def __init__(self, refuses: bool = False, awaited: tuple[bool, ...] = ()) -> None:
        self.removed, self._refuses, self._awaited = list[tuple[str, int]](), refuses, awaited

    def run(self, fetches: Any, feeds: Any = None, options: Any = None) -> Any:
        if self._refuses:
            raise tf.errors.UnavailableError(None, None, "lost")
        if feeds is None:
            return [7, self._awaited]
        ((_, index),) = feeds.items()
        return self.removed.append((fetches, index))


def rounds_of(session: Session | None, kind: type[FlatRounds] = FlatRounds, is_chief: bool = False) -> Any:
    """Rounds that know no more of their task than these tests need."""
    made = kind.__new__(kind)
    vars(made).update(
        _ops=types.SimpleNamespace(
            removals=[Removal("remove", "replica"), Removal("free", "leaver")],  # type: ignore[arg-type]
            pauses=[Removal("pause", "replica")],  # type: ignore[arg-type]
            awaited=["awaited"],
        ),
        _now=types.SimpleNamespace(session=session, should_stop=lambda: False, session_is_over=lambda: False),
        _global_step="step", _index=1, _is_chief=is_chief, _was_opened=False, _topology=RACKS,
        _workers=["worker:0", "worker:1", "worker:2", "worker:3"],
    )  # fmt: skip
    return made


def test_a_rack_is_removed_when_its_last_worker_is_absent() -> None:
    session = Session()
    rounds = rounds_of(session, RackRounds)
    assert rounds.remove_absent(1, ["worker:0", "worker:2", "worker:3"]) and session.removed == []
    assert rounds.remove_absent(3, ["worker:0", "worker:2"]) and session.removed == [("remove", 1), ("free", 1)]


def test_all_workers_of_an_awaited_rack_are_named() -> None:
    session = Session(awaited=(False, True))
    assert rounds_of(session).awaited() == (7, [1])
    assert rounds_of(session, RackRounds).awaited() == (7, [1, 3])
