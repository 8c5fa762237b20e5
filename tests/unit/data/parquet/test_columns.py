"""Arrow columns as tensors."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train import DataError
from ps_train.data.parquet.columns import MissingValueError, column_of

pa = pytest.importorskip("pyarrow")

DAY = datetime.date(2026, 1, 2)
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
MICROS = 1767323045678901
"""MOMENT in microseconds since 1970."""

DICTIONARY = pa.dictionary(pa.int8(), pa.string())
SCALARS = [
    *((pa.from_numpy_dtype(kind), [1, 0, 7], tf.as_dtype(kind), [1, 0, 7]) for kind in ("int8", "int16", "int32")),
    *((pa.from_numpy_dtype(kind), [1, 0, 7], tf.as_dtype(kind), [1, 0, 7]) for kind in ("int64", "uint8", "uint16")),
    *((pa.from_numpy_dtype(kind), [1.5, 0.0], tf.as_dtype(kind), [1.5, 0.0]) for kind in ("float32", "float64")),
    (pa.float16(), np.array([1.5, 0], np.float16), tf.float16, [1.5, 0.0]),
    (pa.uint32(), [4_000_000_000], tf.int64, [4_000_000_000]),
    (pa.uint64(), [1 << 63], tf.uint64, [1 << 63]),
    (pa.bool_(), [True, False, True], tf.bool, [True, False, True]),
    (pa.decimal128(9, 2), [decimal.Decimal("12.25"), decimal.Decimal("-0.10")], tf.float64, [12.25, -0.1]),
    (pa.decimal256(50, 1), [decimal.Decimal("1.5")], tf.float64, [1.5]),
    (pa.timestamp("us"), [MOMENT], tf.int64, [MICROS]),
    (pa.timestamp("ns"), [MOMENT], tf.int64, [MICROS]),
    (pa.timestamp("s"), [MOMENT.replace(microsecond=0)], tf.int64, [MICROS // 10**6 * 10**6]),
    (pa.timestamp("ms", "UTC"), [MOMENT.replace(microsecond=0)], tf.int64, [MICROS // 10**6 * 10**6]),
    (pa.duration("s"), [datetime.timedelta(seconds=3)], tf.int64, [3_000_000]),
    (pa.time32("s"), [datetime.time(0, 1, 2)], tf.int64, [62_000_000]),
    (pa.time64("ns"), [datetime.time(0, 1, 2, 3)], tf.int64, [62_000_003]),
    (pa.date32(), [DAY], tf.int32, [20455]),
    (pa.date64(), [DAY], tf.int32, [20455]),
    (pa.string(), ["a", "", "ü", "a"], tf.string, [b"a", b"", "ü".encode(), b"a"]),
    (pa.large_string(), ["a", "b"], tf.string, [b"a", b"b"]),
    (pa.string_view(), ["a", "b"], tf.string, [b"a", b"b"]),
    (pa.binary(), [b"\xff\x00", b""], tf.string, [b"\xff\x00", b""]),
    (pa.binary(2), [b"ab", b"cd"], tf.string, [b"ab", b"cd"]),
    (DICTIONARY, ["x", "y", "x"], tf.string, [b"x", b"y", b"x"]),
    (pa.dictionary(pa.int8(), pa.int64()), [5, 6, 5], tf.int64, [5, 6, 5]),
]


def value_of(array: Any, default: Any = None) -> Any:
    """The column's value as a user's graph has it."""
    column = column_of("c", array.type, default)
    arrays = column.arrays(array)
    with tf.Graph().as_default():
        tensors = [tf.constant(part, dtype) for part, dtype in zip(arrays, column.dtypes, strict=True)]
        with tf.compat.v1.Session() as session:
            return session.run(column.tensor(tensors))


@pytest.mark.parametrize("arrow, values, dtype, expected", SCALARS, ids=lambda value: str(value)[:20])
def test_one_value_a_row(arrow: Any, values: Any, dtype: Any, expected: Any) -> None:
    found = value_of(pa.array(values, arrow))
    assert found.tolist() == expected
    assert column_of("c", arrow, None).dtypes[0] == dtype
    assert found.dtype == dtype.as_numpy_dtype or dtype == tf.string
    sliced = value_of(pa.array(values, arrow)[1:])  # an array may begin within its buffers
    assert sliced.tolist() == expected[1:]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list], ids=["list", "large_list"])
@pytest.mark.parametrize("element, rows", [(pa.int64(), [[1, 2], [], [3]]), (pa.string(), [["a"], [], ["b", "a"]])])
def test_lists_are_ragged(kind: Any, element: Any, rows: Any) -> None:
    found = value_of(pa.array([[], *rows], kind(element))[1:]).to_list()
    assert [[v.decode() if isinstance(v, bytes) else v for v in row] for row in found] == rows


def test_lists_of_lists_are_ragged_twice() -> None:
    rows = [[[1, 2], []], [], [[3]]]
    assert value_of(pa.array(rows, pa.list_(pa.list_(pa.int32())))).to_list() == rows


def test_lists_of_a_fixed_size_are_dense() -> None:
    arrow = pa.list_(pa.float32(), 2)
    assert value_of(pa.array([[0, 0], [1, 2], [3, 4]], arrow)[1:]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "arrow, values, default, expected",
    [
        (pa.int64(), [1, None], -1, [1, -1]),
        (pa.float32(), [None, 2.0], 0, [0, 2]),
        (pa.string(), ["a", None], "?", [b"a", b"?"]),
        (DICTIONARY, ["a", None], "?", [b"a", b"?"]),
        (pa.dictionary(pa.int8(), pa.int64()), [5, None], 0, [5, 0]),
        (pa.uint32(), [None, 3], 9, [9, 3]),
        (pa.bool_(), [None, True], False, [False, True]),
        (pa.decimal128(9, 2), [None], decimal.Decimal("1.5"), [1.5]),
        (pa.large_string(), [None], "x", [b"x"]),
    ],
)
def test_missing_values_become_the_default(arrow: Any, values: Any, default: Any, expected: Any) -> None:
    assert value_of(pa.array(values, arrow), default).tolist() == expected


def test_a_default_stands_for_missing_elements_and_a_missing_list_is_empty() -> None:
    array = pa.array([[1, None], None, [2]], pa.list_(pa.int64()))
    assert value_of(array, 0).to_list() == [[1, 0], [], [2]]


@pytest.mark.parametrize(
    "arrow, values, row",
    [
        (pa.int64(), [1, 2, None], 2),
        (pa.string(), ["a", None, None], 1),
        (DICTIONARY, ["a", "b", None], 2),
        (pa.list_(pa.int64()), [[1], None], 1),
        (pa.list_(pa.int64()), [[1], [], [2, None]], 2),
        (pa.list_(pa.list_(pa.int64())), [[[1], []], [[2], [None]]], 1),
        (pa.list_(pa.float32(), 2), [[1, 2], [3, None]], 1),
    ],
)
def test_a_missing_value_without_a_default_is_refused_with_its_row(arrow: Any, values: Any, row: int) -> None:
    with pytest.raises(MissingValueError) as error:
        column_of("c", arrow, None).arrays(pa.array(values, arrow))
    assert error.value.row == row


@pytest.mark.parametrize(
    "arrow, words",
    [
        (pa.map_(pa.string(), pa.int64()), "column c of map<string, int64> has no tensor"),
        (pa.null(), "column c of null has no tensor"),
        (pa.list_(pa.struct([("a", pa.int64())])), "has no tensor: choose its fields"),
        (pa.list_(pa.list_(pa.list_(pa.int64()))), "lists may be two deep"),
    ],
)
def test_other_types_are_refused_by_name(arrow: Any, words: str) -> None:
    with pytest.raises(DataError, match=r"^[^\n]*$") as error:
        column_of("c", arrow, None)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "arrow, default", [(pa.int64(), "x"), (pa.int64(), 0.5), (pa.date32(), 0.5), (pa.int8(), 300), (pa.string(), 5)]
)
def test_a_default_of_another_type_is_refused(arrow: Any, default: Any) -> None:
    with pytest.raises(DataError, match=r"the default .* of column c is not a value of its type"):
        column_of("c", arrow, default)


def test_an_extension_is_read_as_what_it_is_stored_as() -> None:
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16)))
    assert value_of(array).tolist() == [b"0123456789abcdef"]
