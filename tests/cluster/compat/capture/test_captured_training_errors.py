"""An exception of the program's own code ends the training as it is, with either engine."""

from __future__ import annotations

import pathlib
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.compat import estimators
from tests.support.long import long


class OwnError(Exception):
    """An exception whose constructor takes more than a text."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(place, number)
        self.place, self.number = place, number


class Failing(v1.train.SessionRunHook):
    """Fails in a method, at its third call where that is called in every step."""

    def __init__(self, method: str, error: BaseException) -> None:
        self._method, self._error, self._left = method, error, 3 if method.endswith("_run") else 1

    def _fail(self, method: str) -> None:
        self._left -= method == self._method
        if method == self._method and self._left <= 0:
            raise self._error

    def begin(self) -> None:
        self._fail("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._fail("after_create_session")

    def before_run(self, run_context: Any) -> None:
        self._fail("before_run")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._fail("after_run")

    def end(self, session: Any) -> None:
        self._fail("end")


class FailingListener(v1.train.CheckpointSaverListener):
    """Fails at the second save."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def after_save(self, session: Any, global_step_value: int) -> None:
        if global_step_value > 0:
            raise self._error


def fails_in_py_function() -> tf.data.Dataset:
    def fail(labels: Any) -> Any:
        raise KeyError("in the input")

    return estimators.forever().map(lambda x, y: (x, tf.ensure_shape(tf.numpy_function(fail, [y], y.dtype), y.shape)))


ENGINES = ["ps_train", long("tensorflow")]


def train(directory: pathlib.Path, engine: str, input_fn: Callable[[], Any] = estimators.forever, **more: Any) -> Any:
    config = estimators.RunConfig(str(directory), engine=engine, save_checkpoints_steps=5)
    return estimators.Estimator(estimators.model_fn, config=config).train(input_fn, max_steps=12, **more)


@pytest.mark.usual(1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("after_run", ValueError("of the program")),
        ("begin", OwnError("begin", 7)),
        long("after_create_session", KeyError("name")),
        long("before_run", OwnError("before", 7)),
        long("after_run", SystemExit(3)),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_exception_of_a_hook_is_raised_as_it_is(
    tmp_path: pathlib.Path, engine: str, method: str, error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised:
        train(tmp_path, engine, hooks=[Failing(method, error)])
    assert raised.value is error and error.__cause__ is None
    assert traceback.extract_tb(error.__traceback__)[-1].name == "_fail"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_exception_of_a_listener_is_raised_as_it_is(tmp_path: pathlib.Path, engine: str) -> None:
    error = OwnError("save", 5)
    with pytest.raises(OwnError) as raised:
        train(tmp_path, engine, saving_listeners=[FailingListener(error)])
    assert raised.value is error


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("method", "error", "steps"),
    [("before_run", StopIteration(), 2), ("after_run", tf.errors.OutOfRangeError(None, None, "end"), 3)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hook_ends_the_training_by_an_exception_of_the_end(
    tmp_path: pathlib.Path, engine: str, method: str, error: Exception, steps: int
) -> None:
    found = train(tmp_path, engine, hooks=[Failing(method, error)])
    assert found.get_variable_value("global_step") == steps


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_in_the_input_is_tensorflows_with_the_text_of_the_program(tmp_path: pathlib.Path, engine: str) -> None:
    with pytest.raises(tf.errors.UnknownError, match="KeyError: 'in the input'"):
        train(tmp_path, engine, fails_in_py_function)
