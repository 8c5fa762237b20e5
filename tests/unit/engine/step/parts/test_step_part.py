"""The parts of a step: which function is around which."""

from __future__ import annotations

from typing import Any

from ps_train.engine.step.parts.step_part import StepPart, StepParts, wrapped


class Noted(StepPart):
    """Notes when its function is entered and left."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name, self.notes = name, notes

    def push(self, push: Any) -> Any:
        def pushed(pushes: Any, computed: Any) -> Any:
            self.notes.append(f"into {self.name}")
            found = push([*pushes, self.name], computed)
            self.notes.append(f"out of {self.name}")
            return found

        return pushed


class Other(StepPart):
    """Adds nothing."""


def test_the_first_part_is_the_outermost_and_the_last_is_next_to_the_plain_step() -> None:
    notes: list[str] = []
    parts = StepParts([Noted("first", notes), Other(), Noted("last", notes)])
    assert wrapped(parts, "push", lambda pushes, computed: pushes)([], None) == ["first", "last"]
    assert notes == ["into first", "into last", "out of last", "out of first"]


def test_without_parts_a_word_is_the_plain_function() -> None:
    def plain(pushes: Any, computed: Any) -> Any:
        return pushes

    assert wrapped(StepParts([Other()]), "push", plain) is plain


def test_a_part_is_found_by_its_class() -> None:
    noted = Noted("one", [])
    assert StepParts([Other(), noted]).of(Noted) == [noted]
    assert StepParts([Other()]).of(Noted) == []
