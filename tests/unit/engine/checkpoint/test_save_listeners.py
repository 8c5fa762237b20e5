"""What a user's listeners of checkpoints are told, and what their answers and errors do."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.engine.checkpoint import save_listeners
from ps_train.engine.checkpoint.save_listeners import NO_LISTENERS, SaveListeners

SESSION: Any = object()


def listener(told: list[Any], answer: Any = None, name: str = "Recording") -> v1.train.CheckpointSaverListener:
    """A listener that notes what it is told, and answers `after_save`."""

    def method(what: str, result: Any = None) -> Any:
        return lambda self, *arguments: (told.append((name, what, *arguments)), result)[1]

    methods = {what: method(what) for what in ("begin", "before_save", "end")}
    methods["after_save"] = method("after_save", answer)
    return type(name, (v1.train.CheckpointSaverListener,), methods)()


def test_each_listener_is_told_of_everything_in_order_with_session_and_step() -> None:
    told: list[Any] = []
    listeners = SaveListeners([listener(told, name="One"), listener(told, name="Two")], pytest.fail)
    listeners.before(SESSION, 100)
    listeners.after(SESSION, 100)
    listeners.end(SESSION, 200)
    calls = [("begin",), ("before_save", SESSION, 100), ("after_save", SESSION, 100), ("end", SESSION, 200)]
    assert told == [(name, *call) for call in calls for name in ("One", "Two")]


@pytest.mark.parametrize(("answer", "stopped"), [(True, ["Recording"]), (False, []), (None, []), (1, [])])
def test_only_true_ends_the_training_with_the_name_of_the_listener(answer: Any, stopped: list[str]) -> None:
    found: list[str] = []
    listeners = SaveListeners([listener([], answer), listener([], None, "Other")], found.append)
    listeners.before(SESSION, 1)
    assert found == []
    listeners.after(SESSION, 1)
    assert found == stopped


def test_a_checkpoint_is_an_event_without_listeners_too(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[str, str]] = []
    monkeypatch.setattr(save_listeners, "record_event", lambda *event: events.append(event))
    NO_LISTENERS.before(SESSION, 7)
    assert events == []
    NO_LISTENERS.after(SESSION, 7)
    assert events == [("saved", "checkpoint of step 7")]


def test_what_is_no_listener_is_refused_and_shown() -> None:
    with pytest.raises(
        ModelError, match=r"saving_listeners\(\) returned int 3: return .*CheckpointSaverListener objects"
    ):
        SaveListeners([listener([]), 3], print)


@pytest.mark.parametrize("method", ["begin", "before_save", "after_save", "end"])
def test_an_exception_of_a_listener_is_told_with_its_name_and_method(method: str) -> None:
    def fail(self: Any, *arguments: Any) -> None:
        raise KeyError("mine")

    failing = type("Failing", (v1.train.CheckpointSaverListener,), {method: fail})()
    with pytest.raises(ModelError, match=rf"Failing\.{method}\(\).*KeyError"):
        listeners = SaveListeners([failing], print)
        listeners.before(SESSION, 1)
        listeners.after(SESSION, 1)
        listeners.end(SESSION, 1)
