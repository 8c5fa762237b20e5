"""TensorFlow's errors of records that it cannot parse, made by TensorFlow itself, in words for the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from ps_train.data.parse_faults import fault_in


def example(**values: Any) -> bytes:
    features = tf.train.Features()
    for name, value in values.items():
        kind = (
            "int64_list" if isinstance(value[0], int) else "float_list" if isinstance(value[0], float) else "bytes_list"
        )
        getattr(features.feature[name], kind).value.extend(value)
    return tf.train.Example(features=features).SerializeToString()


def error_of(parse: Callable[[], Any]) -> str:
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        parse()
    return str(caught.value)


@pytest.mark.parametrize(
    ("record", "defaults", "fault"),
    [
        (b"7", [[0], [0]], "1 columns instead of 2 ('7')"),
        (b"7,x", [[0], [0]], "column 2 is 'x', which is not a valid int32"),
        (b"7,", [[0], []], "column 2 is empty, and has no default value"),
        (b'7,"x', [[0], [""]], "a quoted field does not end before a delimiter or the line's end ('7,\"x'); no field "),
        (b'7,a"x', [[0], [""]], "a field that does not begin with a quote has one inside ('7,a\"x')"),
    ],
)
def test_lines_of_columns(record: bytes, defaults: list, fault: str) -> None:
    columns = [tf.constant(default, tf.int32 if default != [""] else tf.string) for default in defaults]
    found = fault_in(error_of(lambda: tf.io.decode_csv(record, columns)), record)
    assert found is not None and found.startswith(fault)


def test_a_text_that_is_not_a_number_is_found_in_its_column() -> None:
    text = error_of(lambda: tf.strings.to_number("x", tf.float32))
    assert fault_in(text, b"1,x,2") == "column 2 is 'x', which is not a number"
    assert fault_in(text, b"1\tx") == "column 2 is 'x', which is not a number"
    assert fault_in(text, b"x,x") == fault_in(text, b"x") == fault_in(text) == "'x', which is not a number"


def parse(record: bytes, feature: Any) -> Callable[[], Any]:
    return lambda: tf.io.parse_example([record], {"a": feature})


@pytest.mark.parametrize(
    ("record", "feature", "fault"),
    [
        (example(b=[1]), tf.io.FixedLenFeature([], tf.int64), "feature 'a' is missing: int64 is expected"),
        (
            example(a=[1.5, 2.5]),
            tf.io.FixedLenFeature([2], tf.int64),
            "feature 'a' has [1.5, 2.5], float values instead of int64",
        ),
        (
            example(a=[1, 2, 3, 4, 5, 6]),
            tf.io.FixedLenFeature([2], tf.int64),
            "feature 'a' has [1, 2, 3, 4, 5, ...], 6 values of int64, which do not fit the shape [2]",
        ),
        (
            example(a=[7]),
            tf.io.FixedLenFeature([2], tf.int64),
            "feature 'a' has [7], 1 value of int64, which do not fit the shape [2]",
        ),
    ],
)
def test_features_of_examples(record: bytes, feature: Any, fault: str) -> None:
    assert fault_in(error_of(parse(record, feature)), record) == fault


def test_a_record_that_is_no_example_is_shown() -> None:
    record = b"no example"
    text = error_of(parse(record, tf.io.FixedLenFeature([], tf.int64)))
    assert fault_in(text, record) == "not a tf.train.Example ('no example')"
    assert fault_in(text) == "not a tf.train.Example"


def test_bytes_of_another_length() -> None:
    text = error_of(lambda: tf.io.decode_raw(b"123", tf.int16))
    assert fault_in(text) == "3 bytes, which is not a multiple of 2, the size of int16"


def test_another_error_has_no_fault_of_a_record() -> None:
    assert fault_in("OOM when allocating tensor", b"7") is None
