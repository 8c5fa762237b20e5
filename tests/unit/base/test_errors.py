"""One line of an error names it, whatever TensorFlow has written around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, SaveError, cut, headline, nearest, shown
from tests.support.long import long


def raised_by(build: Callable[[], Any]) -> Exception:
    """The error of a real session that runs what `build` makes."""
    with tf.Graph().as_default():
        built = build()
        with v1.Session() as session, pytest.raises(tf.errors.OpError) as caught:
            session.run(built)
        return caught.value


def fails() -> None:
    raise ValueError("my first line\nmy second line")


def fed(value: Any) -> tf.Tensor:
    """A tensor whose value is not known when the graph is built."""
    return v1.placeholder_with_default(value, None)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: tf.debugging.Assert(fed(False), ["mine"]), "InvalidArgumentError: assertion failed: [mine]"),
        (lambda: tf.gather([1, 2], fed([7])), "InvalidArgumentError: indices[0] = 7 is not in [0, 2)"),
        (lambda: tf.numpy_function(fails, [], tf.float32), "InvalidArgumentError: ValueError: my first line"),
        (lambda: tf.py_function(fails, [], tf.float32), "InvalidArgumentError: ValueError: my first line"),
        long(  # TensorFlow waits for memory
            lambda: tf.zeros(fed([1 << 20, 1 << 20])), "ResourceExhaustedError: OOM when allocating tensor with shape"
        ),
    ],
)
def test_a_tensorflow_error_is_named_by_its_type_and_its_first_meaningful_line(
    build: Callable[[], Any], expected: str
) -> None:
    told = headline(raised_by(build))
    assert told.startswith(expected)
    assert "\n" not in told


def test_the_first_of_several_root_errors_is_named() -> None:
    text = (
        "2 root error(s) found.\n  (0) INVALID_ARGUMENT: assertion failed: [mine]\n\t [[{{node a}}]]\n"
        "  (1) INVALID_ARGUMENT: other\n0 successful operations.\n"
    )
    error = tf.errors.InvalidArgumentError(None, None, text)
    assert headline(error) == "InvalidArgumentError: assertion failed: [mine]"


def test_the_task_and_the_code_that_another_task_writes_before_an_error_are_no_cause() -> None:
    text = (
        "INVALID_ARGUMENT: From /job:worker/replica:0/task:1:\n2 root error(s) found.\n"
        "  (0) INVALID_ARGUMENT: assertion failed: [INTERNAL: mine]\n\t [[{{node a}}]]\n"
    )
    error = tf.errors.InvalidArgumentError(None, None, text)
    assert headline(error) == "InvalidArgumentError: assertion failed: [INTERNAL: mine]"


def test_a_message_with_nothing_but_the_graph_still_gives_a_line() -> None:
    told = headline(tf.errors.InvalidArgumentError(None, None, "Graph execution error:\n\n"))
    assert told == "InvalidArgumentError: Graph execution error:"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("my first line\nmy second line"), "ValueError: my first line"),
        (ValueError("\n  begins later"), "ValueError: begins later"),
        (KeyError("mine"), "KeyError: 'mine'"),
        (ValueError(), "ValueError"),
        (ConfigError("a=1 is wrong: use 2."), "a=1 is wrong: use 2."),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 100 + " ... " + "x" * 100),
        (SaveError(f"m/{'x' * 300} could not be written (No space)"), f"m/{'x' * 300} could not be written (No space)"),
    ],
)
def test_an_exception_is_named_by_its_type_and_its_first_line(error: Exception, expected: str) -> None:
    assert headline(error) == expected


def test_control_characters_in_a_quoted_value_do_not_reach_the_terminal() -> None:
    assert str(ConfigError("host=\x1b[31m\ud800é")) == "host=\\x1b[31m\\ud800é"


KNOWN = ["learning_rate", "learning_rates", "max_steps"]


def test_the_nearest_names_make_a_hint_and_none_makes_another_text() -> None:
    assert nearest("lerning_rate", KNOWN) == "did you mean learning_rate? "
    assert nearest("xyz", KNOWN) == "" and nearest("xyz", KNOWN, otherwise="use others") == "use others"
    several = nearest("lerning_rate", KNOWN, " (did you mean --{}?)", most=2, joint=" or --")
    assert several == " (did you mean --learning_rate or --learning_rates?)"
    assert nearest("steps", KNOWN, cutoff=0.9) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", r"'a\nb'"),
        (b"caf\xc3\xa9 \xff", r"'café \\xff'"),
        ("y" * 500, f"'{'y' * 77}...'"),
        ([1, None], "[1, None]"),
        ([0] * 500, "[0" + ", 0" * 25 + "..."),
    ],
    ids=["text", "bytes", "long text", "list", "long list"],
)
def test_a_value_is_shown_in_one_short_line(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_text_is_cut_to_a_length() -> None:
    assert (cut("12345", 5), cut("123456", 5)) == ("12345", "12...")
