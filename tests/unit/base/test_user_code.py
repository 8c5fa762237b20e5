"""An error names the line of the user's code, wherever TensorFlow or Python has raised it."""

from __future__ import annotations

import importlib.util
import itertools
import pathlib
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base import user_code
from ps_train.base.errors import ModelError
from ps_train.base.user_code import describe, frames_text
from ps_train.cluster.sessions.calls import RepeatingSession
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.engine.step.unroll import UnrolledCalls, UnrolledStep

_numbers = itertools.count()


@pytest.fixture
def users(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a file of the user's from the working directory; the code of these tests is not the user's."""
    monkeypatch.chdir(tmp_path)
    tests = f"{pathlib.Path(__file__).parent}/"
    monkeypatch.setattr(user_code, "_LIBRARIES", (*user_code._LIBRARIES, tests))

    def load(source: str) -> Any:
        path = tmp_path / f"users_{next(_numbers)}.py"
        path.write_text("import tensorflow as tf\n" + textwrap.dedent(source).lstrip())
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def raised(build: Callable[[], Any], copy: int = 0, lengths: int = 1) -> Exception:
    """The error of a session that runs what `build` makes, or that copy of it in the last of several call lengths."""
    with tf.Graph().as_default() as graph:
        with v1.name_scope("model"):
            built = build()
        if copy:
            examples = tf.cast(tf.size(built), tf.float32)
            step = [tf.convert_to_tensor(built).op]
            for _ in range(lengths):
                built = UnrolledCalls(UnrolledStep(step, examples), num_ps=0).steps(copy + 1)[-1].train
        with RepeatingSession("", graph, v1.ConfigProto()) as session, pytest.raises(Exception) as caught:
            session.run(built)
    return caught.value


def read_error(data: Callable[[], Any]) -> Exception:
    """The error of a worker that reads batches of such data."""
    with tf.Graph().as_default() as graph:
        batches = training_batches(data(), WHOLE, 4, epochs=1, shuffle_buffer=0)
        with RepeatingSession("", graph, v1.ConfigProto()) as session, pytest.raises(Exception) as caught:
            session.run(batches.initializer, batches.feeds())
            session.run(batches.labels)
    return caught.value


def fed(value: Any) -> tf.Tensor:
    """A tensor whose value is not known when the graph is built."""
    return v1.placeholder_with_default(value, None)


@pytest.mark.parametrize("copy, lengths", [(0, 1), (1, 1), (3, 1), (1, 2)])
def test_an_operation_that_fails_is_named_with_the_line_that_made_it_in_any_step_of_a_call(
    users, copy: int, lengths: int
) -> None:
    model = users(
        """
        def forward(x):
            with tf.name_scope("words"):
                return tf.gather([1, 2], x)
        """
    )
    told = describe(raised(lambda: model.forward(fed([7])), copy, lengths))
    assert told == (
        "InvalidArgumentError: indices[0] = 7 is not in [0, 2) "
        f'({model.__name__}.py, line 4, in forward: return tf.gather([1, 2], x), op "words/GatherV2")'
    )


def test_an_operation_in_a_function_branch_or_map_is_named_with_the_line_that_calls_it(users) -> None:
    model = users(
        """
        @tf.function
        def inner(x):
            return tf.gather([1, 2], x)
        def forward(x):
            return inner(x)
        def branches(x):
            return tf.cond(x[0] > 3, lambda: tf.gather([1, 2], x), lambda: x)
        def data():
            numbers = tf.data.Dataset.range(3).map(lambda n: n + 7)
            return numbers.map(lambda n: (tf.gather([1, 2], n), n))
        """
    )
    told = describe(raised(lambda: model.forward(fed([7]))))
    assert "indices[0] = 7" in told and f"{model.__name__}.py, line 6, in forward: return inner(x)" in told
    told = describe(raised(lambda: model.branches(fed([7]))))
    assert "indices[0] = 7" in told and f"{model.__name__}.py, line 8, in branches: return tf.cond(" in told
    told = describe(read_error(model.data))
    assert "indices = 7" in told and f"{model.__name__}.py, line 11, in data: return numbers.map(" in told


def test_an_operation_of_a_gradient_is_named_with_the_line_of_the_operation_that_it_belongs_to(users) -> None:
    model = users(
        """
        def forward(x):
            return tf.debugging.check_numerics(x, "mine")
        """
    )

    def build() -> Any:
        x = fed(1.0)
        return tf.gradients(model.forward(x), x, grad_ys=fed(float("nan")))[0]

    told = describe(raised(build))
    assert "mine" in told and f"{model.__name__}.py, line 3, in forward" in told


@pytest.mark.parametrize("function", ["numpy_function", "py_function"])
def test_python_code_that_an_operation_calls_is_named_with_its_own_line(users, function) -> None:
    model = users(
        f"""
        def check(value):
            raise ValueError("my first line\\nmy second line")
        def forward(x):
            return tf.{function}(check, [x], tf.float32)
        """
    )
    error = raised(lambda: model.forward(fed(1.0)))
    told = describe(error)
    assert "ValueError: my first line (" in told and "second line" not in told.split("(")[0]
    assert f"({model.__name__}.py, line 3, in check: raise ValueError(" in told
    assert frames_text(error).count("File ") == 1


def test_a_generator_of_a_data_set_is_named_with_its_line(users) -> None:
    model = users(
        """
        def numbers():
            yield 1.0, 2.0
            raise RuntimeError("no more files")
        def data():
            return tf.data.Dataset.from_generator(numbers, (tf.float32, tf.float32), ([], []))
        """
    )
    told = describe(read_error(model.data))
    assert "RuntimeError: no more files" in told
    assert f"({model.__name__}.py, line 4, in numbers: raise RuntimeError(" in told


def test_a_function_that_autograph_converts_is_named_with_the_users_line(users) -> None:
    model = users(
        """
        def example(x):
            if x > 3:
                x = x + 1
            raise KeyError("boo")
        def data():
            return tf.data.Dataset.range(3).map(example)
        """
    )
    with tf.Graph().as_default(), pytest.raises(Exception) as caught:
        model.data()
    told = describe(caught.value)
    assert "boo" in told and "user code" not in told
    assert f"{model.__name__}.py, line 5, in example: raise KeyError(" in told


def test_an_exception_shows_only_the_users_frames_though_tensorflow_raised_it(users) -> None:
    model = users(
        """
        def layer(x):
            return tf.matmul(x, tf.zeros([4, 5]))
        def forward(x):
            return layer(x)
        """
    )
    with tf.Graph().as_default(), pytest.raises(ValueError) as caught:
        model.forward(tf.zeros([2, 3]))
    text = frames_text(caught.value)
    assert text.index("line 5, in forward") < text.index("line 3, in layer")
    assert "return tf.matmul(x, tf.zeros([4, 5]))" in text
    assert text.count("File ") == 2
    assert describe(caught.value).endswith(
        f"({model.__name__}.py, line 3, in layer: return tf.matmul(x, tf.zeros([4, 5])))"
    )


def test_a_deliberate_error_and_one_without_the_users_code_have_no_frame() -> None:
    assert describe(ModelError("forward() is wrong: write it.")) == "forward() is wrong: write it."
    assert describe(OSError(28, "No space left")) == "OSError: [Errno 28] No space left"
    assert frames_text(OSError(28, "No space left")) == ""
