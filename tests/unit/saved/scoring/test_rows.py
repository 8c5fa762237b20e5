"""Values of features from Arrow columns, defaults and identities; cases against lists of Python."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np
import pytest

from ps_train.base.errors import DataError
from ps_train.saved.scoring.rows import Data, DataSpec, Features, check_columns, check_different, defaults_for
from ps_train.saved.serving.feature_values import Feature

pa = pytest.importorskip("pyarrow")

FEATURES = {
    "price": Feature("price", "dense", np.float32, ()),
    "pair": Feature("pair", "dense", np.float32, (2,)),
    "name": Feature("name", "dense", np.object_, ()),
    "ids": Feature("ids", "ragged", np.int64, None),
    "words": Feature("words", "ragged", np.object_, None),
}


def value(name: str, column: Any, kind: Any = None, default: str | None = None) -> Any:
    array = column if isinstance(column, pa.Array) else pa.array(column, kind)
    return Features(FEATURES, {} if default is None else {name: default}).value(
        name, array, lambda row: f"a.csv line {row + 2}"
    )


@pytest.mark.parametrize(
    ("column", "shape"), [([1.0, 2.5], [2]), ([[1, 2], [3, 4], [5, 6]], [3, 2]), ([[[1], [2]], [[3], [4]]], [2, 2, 1])]
)
def test_lists_of_one_length_are_an_array(column: list[Any], shape: list[int]) -> None:
    found = value("price", column)
    assert list(found.shape) == shape and found.tolist() == column
    fixed = pa.array(column)
    if len(shape) == 2:
        assert value("pair", fixed.cast(pa.list_(fixed.type.value_type, 2))).tolist() == column


def test_texts_that_repeat_keep_their_rows() -> None:
    assert value("name", ["b", "a", "b"]).tolist() == [b"b", b"a", b"b"]
    assert value("name", [["b", "a"], ["a", "c"]]).tolist() == [[b"b", b"a"], [b"a", b"c"]]


def test_no_rows_have_the_shape_of_no_rows() -> None:
    assert value("pair", [], pa.list_(pa.float32())).shape == (0, 0) and value("price", [], pa.float32()).shape == (0,)


def test_lists_of_several_lengths_are_refused_with_both() -> None:
    with pytest.raises(DataError, match="pair has lists of different lengths, 1 and 3"):
        value("pair", [[1.0, 2.0], [3.0], [1.0, 2.0, 3.0]])


def test_ragged_lists_keep_theirs() -> None:
    assert value("ids", [[1, 2], [], [3]]).to_list() == [[1, 2], [], [3]]
    assert value("words", [["a"], ["b", "c"]]).to_list() == [[b"a"], [b"b", b"c"]]
    assert value("ids", [[], []]).to_list() == [[], []] and value("words", [[], []]).to_list() == [[], []]


@pytest.mark.parametrize(
    ("name", "column", "default", "found"),
    [
        ("price", [1.0, None], "2.5", [1.0, 2.5]),
        ("price", [None, None], "3", [3, 3]),
        ("name", ["a", None], "007", [b"a", b"007"]),
        ("name", ["a", None], '"x y"', [b"a", b"x y"]),
        ("name", [None, None], "n", [b"n", b"n"]),
        ("pair", [[1.0, 2.0], None], "[3, 4]", [[1, 2], [3, 4]]),
        ("pair", [None, None], "[3, 4]", [[3, 4], [3, 4]]),
        ("pair", [[1.0, None]], "9", [[1, 9]]),
    ],
)
def test_a_missing_value_has_its_default(name: str, column: list[Any], default: str, found: list[Any]) -> None:
    assert value(name, column, default=default).tolist() == found


@pytest.mark.parametrize(
    ("column", "default", "found"),
    [
        ([[1], None], "[5, 6]", [[1], [5, 6]]),
        ([None, None], "[5, 6]", [[5, 6], [5, 6]]),
        ([[1], None], "7", [[1], []]),
        ([[1, None], [2]], "7", [[1, 7], [2]]),
    ],
)
def test_a_missing_list_is_the_default_list_or_an_empty_one(column: list[Any], default: str, found: Any) -> None:
    assert value("ids", column, pa.list_(pa.int64()), default).to_list() == found


@pytest.mark.parametrize(
    ("name", "column", "line"),
    [("price", [1.0, None], 3), ("pair", [[1, 2], [3, 4], None], 4), ("pair", [[1, 2], [3, 4], [5, None]], 4),
     ("pair", [[1, 2], [None, 4], [5, 6]], 3), ("ids", [[1], None], 3)],
)  # fmt: skip
def test_a_value_without_a_default_is_told_with_its_row(name: str, column: list[Any], line: int) -> None:
    with pytest.raises(DataError, match=rf"^a\.csv line {line} has no value in column {name}: give one by --default"):
        value(name, column)


def test_a_default_list_that_does_not_fit_is_told_with_its_column() -> None:
    with pytest.raises(DataError, match=r"^a\.csv line 2 or a row after it, column ids: .* 300 "):
        value("ids", [[1], None], pa.list_(pa.int8()), "[300]")
    with pytest.raises(DataError, match=r"^a\.csv line 2 or a row after it, column ids: .* truncated"):
        value("ids", [[1], None], pa.list_(pa.int64()), "[0.5]")


def test_a_type_that_the_model_does_not_take_is_refused() -> None:
    struct = pa.struct([("a", pa.int64())])
    for name, kind in (("price", struct), ("pair", pa.list_(struct)), ("ids", pa.list_(struct))):
        with pytest.raises(DataError):
            Features(FEATURES, {}).check(name, kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("price", pa.float32()), ("pair", pa.list_(pa.list_(pa.int64()))), ("pair", pa.list_(pa.int8(), 2)),
     ("ids", pa.list_(pa.int64()))],
)  # fmt: skip
def test_a_default_must_be_of_the_columns_type(name: str, kind: Any) -> None:
    Features(FEATURES, {name: "7"}).check(name, kind)
    Features(FEATURES, {name: "[7]"}).check(name, kind)
    with pytest.raises(DataError):
        Features(FEATURES, {name: "x"}).check(name, kind)


def spec(*defaults: tuple[str, str]) -> DataSpec:
    return DataSpec(["a"], defaults=defaults)


def test_a_columns_own_default_counts_more_than_a_pattern() -> None:
    columns = ["price", "name", "ids", "user"]
    found = defaults_for(spec(("price", "1"), ("p*", "2"), ("*s", "3")), FEATURES, columns)
    assert found == {"price": "1", "pair": "2", "ids": "3", "words": "3"}
    assert defaults_for(spec(("user", "1")), FEATURES, columns) == {"user": "1"}
    assert defaults_for(spec(("later", "1"), ("p*", "2")), FEATURES, None) == {
        "later": "1", "price": "2", "pair": "2"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "columns", "words"),
    [
        ("late", ["a", "b"], "the files have no column 'late': they have a, b"),
        ("q*", ["a", "b"], "no column 'q\\*': they have a, b"),
        ("q*", None, "no column 'q\\*': they have price, pair"),
    ],
)
def test_a_default_without_a_column_is_refused(name: str, columns: list[str] | None, words: str) -> None:
    with pytest.raises(DataError, match=words):
        defaults_for(spec((name, "1")), FEATURES, columns)


def test_columns_are_checked() -> None:
    check_columns(["a", "b"], ["b"])
    with pytest.raises(DataError, match=r"no column 'c': they have 0, 1, .*29, \.\.\.\.$"):
        check_columns([str(number) for number in range(31)], ["c", "d"])
    with pytest.raises(DataError, match=r"they have a\.$"):
        check_columns(["a"], ["c"])
    check_different("x.csv", ["a", "b"])
    with pytest.raises(DataError, match=r"x\.csv has two columns of the name 'a': rename one"):
        check_different("x.csv", ["b", "a", "a"])


def test_a_changed_file_has_another_identity(tmp_path: pathlib.Path) -> None:
    class Files(Data):
        files, parts, columns = [str(tmp_path / "a"), str(tmp_path / "b")], 2, None

        def read(self, part: int, batch_size: int) -> Any:
            return iter(())

    (tmp_path / "a").write_text("abc")
    (tmp_path / "b").write_text("")
    before = Files().identity()
    assert [one[:2] for one in before] == [[str(tmp_path / "a"), 3], [str(tmp_path / "b"), 0]]
    os.utime(tmp_path / "a", ns=(1, before[0][2] + 1))
    assert Files().identity() != before
    os.utime(tmp_path / "a", ns=(1, before[0][2]))
    assert Files().identity() == before
    (tmp_path / "b").write_text("x")
    assert Files().identity() != before
