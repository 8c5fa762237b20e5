"""Times at which the chief begins a checkpoint, and its record of the last one."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.base.errors import SaveError
from ps_train.engine.checkpoint import save_hook as save
from ps_train.engine.checkpoint.save_hook import SaveHook


class Saves:
    """Writes down what it was asked for; a checkpoint is written when the test says so."""

    def __init__(self) -> None:
        self.busy = False
        self.asked: list[str] = []
        self.outcome: int | SaveError | None = None

    def start(self, session: Any) -> None:
        self.asked.append("begin")

    def hurry(self) -> None:
        self.asked.append("hurry")

    def warm_up(self, session: Any) -> None:
        self.asked.append("rehearse")

    def poll(self) -> int | None:
        outcome, self.outcome = self.outcome, None
        if isinstance(outcome, SaveError):
            raise outcome
        return outcome


def hook_of(saves: Saves, every_steps: int = 0, every_secs: float = 0.0, step: int = 0) -> SaveHook:
    unused: Any = None
    made = SaveHook(saves, unused, every_steps, every_secs)
    made.started(step, saved=step)
    return made


def begun_at(hook: SaveHook, saves: Saves, steps: list[int]) -> list[int]:
    """Returns at which of these steps a checkpoint is begun; each is written at once."""
    found = []
    for step in steps:
        before = saves.asked.count("begin")
        hook.observe(step, None)
        if saves.asked.count("begin") > before:
            found.append(step)
            saves.outcome = step
    return found


def test_a_checkpoint_is_begun_whenever_a_multiple_of_the_steps_is_reached_or_passed() -> None:
    saves = Saves()
    assert begun_at(hook_of(saves, every_steps=10), saves, [1, 9, 10, 11, 19, 23, 29, 30]) == [10, 23, 30]


def test_a_job_that_resumes_saves_at_the_next_multiple_not_at_once() -> None:
    saves = Saves()
    assert begun_at(hook_of(saves, every_steps=10, step=25), saves, [26, 29, 30, 31]) == [30]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

    found = Clock()
    monkeypatch.setattr(save, "time", found)
    return found


def test_a_checkpoint_is_begun_when_its_time_has_come_if_there_was_a_step_since(clock: Any) -> None:
    saves = Saves()
    hook = hook_of(saves, every_secs=60.0)
    clock.now += 59
    assert begun_at(hook, saves, [5]) == []
    clock.now += 1
    assert begun_at(hook, saves, [6]) == [6]
    clock.now += 60
    assert begun_at(hook, saves, [6]) == []
    assert begun_at(hook, saves, [7]) == [7]
    clock.now += 59
    assert begun_at(hook, saves, [8]) == []


def test_the_second_look_of_a_session_rehearses_once() -> None:
    saves = Saves()
    hook = hook_of(saves, every_steps=100)
    for step in (1, 2, 3):
        hook.observe(step, None)
    assert saves.asked == ["rehearse"]
    hook.started(3, saved=0)
    hook.observe(4, None)
    assert saves.asked == ["rehearse"]
    hook.observe(5, None)
    assert saves.asked == ["rehearse", "rehearse"]


def test_while_a_checkpoint_is_written_none_is_begun_and_afterwards_the_one_that_was_due() -> None:
    saves = Saves()
    hook = hook_of(saves, every_steps=10)
    saves.busy = True
    assert begun_at(hook, saves, [8]) == [] and "hurry" not in saves.asked
    assert begun_at(hook, saves, [12]) == [] and "hurry" in saves.asked
    saves.busy = False
    assert begun_at(hook, saves, [13]) == [13]


def test_it_knows_the_last_checkpoint_that_was_written(caplog: pytest.LogCaptureFixture) -> None:
    saves = Saves()
    hook = hook_of(saves, every_steps=10, step=4)
    assert hook.step == 4
    saves.outcome = 12
    hook.poll()
    assert hook.step == 12
    saves.outcome = SaveError("no space left")
    hook.poll()
    assert hook.step == 12
    assert "no space left; training continues, the last checkpoint is of step 12" in caplog.text
    hook.poll()
    assert hook.step == 12


def exact_hook(saves: Saves, step: int = 0) -> tuple[SaveHook, list[int]]:
    allowed: list[int] = []
    unused: Any = None
    made = SaveHook(saves, unused, 10, 0.0, allowed.append)
    made.started(step, saved=step)
    return made, allowed


def test_steps_after_a_multiple_are_allowed_when_its_checkpoint_is_begun() -> None:
    saves = Saves()
    hook, allowed = exact_hook(saves, step=25)
    assert allowed == [30]
    assert begun_at(hook, saves, [28, 30, 30, 37, 40]) == [30, 40]
    assert allowed == [30, 40, 50]


def test_a_checkpoint_that_the_one_before_delays_for_long_is_left_out_not_taken_beside_its_multiple(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(save, "_LATE_SECS", 0.02)
    saves = Saves()
    hook, allowed = exact_hook(saves)
    assert begun_at(hook, saves, [10]) == [10]
    saves.busy = True
    assert begun_at(hook, saves, [20, 23]) == []
    assert allowed == [10, 20, 30] and "a checkpoint was due at step 20 and was left out" in caplog.text
    saves.busy = False
    assert begun_at(hook, saves, [30]) == [30]


def test_a_multiple_that_a_stalled_worker_has_passed_is_left_out_once() -> None:
    saves = Saves()
    hook, allowed = exact_hook(saves)
    assert begun_at(hook, saves, [10, 21, 30, 43, 52, 60]) == [10, 30, 52, 60]
    assert allowed[-1] == 70


def test_a_checkpoint_beside_a_multiple_is_told_and_stands_for_the_multiples_that_it_passed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    saves = Saves()
    hook, allowed = exact_hook(saves)
    assert begun_at(hook, saves, [10]) == [10]
    hook.observe(38, None)  # the chief had been away
    assert saves.asked.count("begin") == 2 and allowed[-1] == 40
    saves.outcome = 41  # steps went on until the ps held the pushes
    assert begun_at(hook, saves, [42, 49]) == []
    assert "due at step 20 and was begun 0.0s later, at step 41, because workers made steps without" in caplog.text
    assert begun_at(hook, saves, [50]) == [50]
