"""Whom no round waits for: an absent worker, or a rack of which every worker is absent."""

from __future__ import annotations

import types
from typing import Any

import pytest
import tensorflow as tf

from ps_train.cluster.topology import Topology
from ps_train.engine.updates.modes.base import Removal
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


def test_a_worker_leaves_with_all_that_is_kept_for_it() -> None:
    session = Session()
    assert rounds_of(session).leave() and session.removed == [("remove", 1), ("free", 1)]


def test_between_two_sessions_there_is_nobody_to_remove() -> None:
    assert rounds_of(None).remove_absent(2, [])
    assert rounds_of(None).awaited() is None


def test_a_ps_that_does_not_answer_is_asked_again_later() -> None:
    rounds = rounds_of(Session(refuses=True))
    assert not rounds.remove_absent(2, []) and rounds.awaited() is None


def test_a_worker_that_waits_for_a_checkpoint_keeps_its_data() -> None:
    session = Session()
    rounds_of(session).pause(session)
    assert session.removed == [("pause", 1)]


@pytest.mark.parametrize(("is_chief", "was_there", "count"), [(True, True, 2), (True, False, 0), (False, True, 0)])
def test_the_half_step_of_the_chief_before_is_removed_once(is_chief: bool, was_there: bool, count: int) -> None:
    session = Session()
    rounds, start = rounds_of(session, is_chief=is_chief), types.SimpleNamespace()
    start.state = types.SimpleNamespace(was_there=was_there)
    rounds.opened(session, start)
    rounds.opened(session, start)
    assert len(session.removed) == count
