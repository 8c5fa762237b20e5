"""The hooks of a program: its own, those of its model_fn, and those of the chief."""

from __future__ import annotations

import types
from typing import Any

import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DivergedError
from ps_train.compat.capture.estimator_program import NanLossError, Program, hooks_of, saver_hooks_of


class Hook(v1.train.SessionRunHook):
    """A hook that does something."""


OWN, OF_MODEL, OF_CHIEF, NOTHING = Hook(), Hook(), Hook(), v1.train.SessionRunHook()


def program(*hooks: Any) -> Program:
    return Program(print, print, None, "m", hooks=hooks)


def spec(training: Any = None, chief: Any = None) -> Any:
    return types.SimpleNamespace(training_hooks=training, training_chief_hooks=chief)


@pytest.mark.parametrize(("is_chief", "found"), [(True, [OWN, OF_MODEL, OF_CHIEF]), (False, [OWN, OF_MODEL])])
def test_hooks_of_the_chief_are_its_own(is_chief: bool, found: list[Any]) -> None:
    assert hooks_of(program(OWN, NOTHING), spec([OF_MODEL], [OF_CHIEF]), is_chief) == found
    assert hooks_of(program(), spec(), is_chief) == []


def test_hooks_that_save_are_apart(tmp_path: Any) -> None:
    saver = v1.train.CheckpointSaverHook(str(tmp_path), save_steps=5)
    given = program(OWN, saver), spec([saver])
    assert hooks_of(*given, is_chief=False) == [OWN] and saver_hooks_of(*given, is_chief=False) == [saver, saver]
    assert saver_hooks_of(program(), spec(None, [saver]), is_chief=False) == []


def test_a_loss_that_is_not_finite_is_tensorflows_error_with_our_text() -> None:
    error = NanLossError("the loss is NaN at step 3")
    assert isinstance(error, v1.train.NanLossDuringTrainingError) and isinstance(error, DivergedError)
    assert str(error) == "the loss is NaN at step 3"
