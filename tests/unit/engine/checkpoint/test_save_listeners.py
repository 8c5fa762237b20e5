"""The user's listeners of checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.lifecycle import Recorder, attach
from ps_train.engine.checkpoint.save_listeners import SaveListeners

SESSION: Any = "session"


class Listener(v1.train.CheckpointSaverListener):
    def __init__(self, result: Any = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._result = result

    def begin(self) -> None:
        self.calls.append(("begin",))

    def before_save(self, session: Any, step: int) -> None:
        self.calls.append(("before", session, step))

    def after_save(self, session: Any, step: int) -> Any:
        self.calls.append(("after", session, step))
        return self._result

    def end(self, session: Any, step: int) -> None:
        self.calls.append(("end", session, step))


def test_listeners_are_told_in_their_order() -> None:
    first, second = Listener(), Listener()
    listeners = SaveListeners([first, second], stop=print)
    listeners.before(SESSION, 100)
    listeners.after(SESSION, 100)
    listeners.end(SESSION, 200)
    expected = [("begin",), ("before", SESSION, 100), ("after", SESSION, 100), ("end", SESSION, 200)]
    assert first.calls == second.calls == expected


@pytest.mark.parametrize(("result", "stops"), [(True, ["Listener"]), (False, []), (None, []), (1, [])])
def test_only_true_ends_the_training(result: Any, stops: list[str]) -> None:
    stopped: list[str] = []
    SaveListeners([Listener(), Listener(result)], stop=stopped.append).after(SESSION, 5)
    assert stopped == stops


def test_another_object_and_an_error_of_begin_are_the_users() -> None:
    with pytest.raises(ModelError, match=r"saving_listeners\(\) returned str 'x': return .*CheckpointSaverListener"):
        SaveListeners(["x"], stop=print)

    class Fails(Listener):
        def begin(self) -> None:
            raise KeyError("lost")

    with pytest.raises(ModelError, match=r"Fails\.begin\(\).*lost"):
        SaveListeners([Fails()], stop=print)


def test_a_written_checkpoint_is_an_event() -> None:
    recorder = attach(Recorder())
    SaveListeners([], stop=print).after(SESSION, 7)
    assert [(event.kind, event.text) for event in recorder.events()] == [("saved", "checkpoint of step 7")]
