"""Exceptions of the user's code as one line with their place, and values of wrong types."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError, ModelError
from ps_train.base.user_code import shown, user_code


def message_of(code):
    with pytest.raises(ModelError) as caught, user_code("forward()"):
        code()
    assert caught.value.__cause__ is not None
    return str(caught.value)


def test_the_innermost_place_in_the_users_files_is_shown():
    def inner():
        return {}["age"]

    line = inner.__code__.co_firstlineno + 1
    place = f'(tests/unit/base/test_user_code_calls.py, line {line}, in inner: return {{}}["age"])'
    assert message_of(lambda: inner()) == f"forward() raised KeyError: 'age' {place}"


def test_the_place_is_not_inside_tensorflow_and_its_notes_on_the_node_are_short():
    def multiply():
        with tf.Graph().as_default():
            return v1.placeholder(tf.float32, [None, 3]) @ tf.zeros([4, 1])

    found = message_of(multiply)
    assert "Dimensions must be equal, but are 3 and 4 for " in found and ", in multiply: return" in found
    assert "{{" not in found and "[?,3], [4,1]" in found


def test_only_the_line_with_the_cause_of_a_long_text_is_kept():
    def fail():
        raise ValueError("\n\nthe cause\nmore\n")

    assert message_of(fail).startswith("forward() raised ValueError: the cause (")


def test_errors_of_the_package_pass_through_and_interrupts_too():
    for error in (DataError("a file"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, user_code("data()"):
            raise error
        assert caught.value is error


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (3, "int 3"),
        ("a\nb", r"str 'a\nb'"),
        ([1] * 99, "list [1, 1"),
        (ValueError, "<class 'ValueError'>"),
    ],
)
def test_a_value_is_shown_in_one_short_line(value, text):
    assert shown(value).startswith(text) and "\n" not in shown(value) and len(shown(value)) < 80
