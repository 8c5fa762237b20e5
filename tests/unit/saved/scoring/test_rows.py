"""Columns of rows as values of a model's features, and their defaults."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
import pytest

from ps_train.base.errors import DataError
from ps_train.saved.scoring.rows import Data, DataSpec, Features, check_columns, check_different, defaults_for
from ps_train.saved.serving.exported import Exported
from tests.support.saved.exported_models import write_export

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    exported = Exported(write_export(tmp_path_factory.mktemp("model") / "1"))
    found = dict(exported.features)
    exported.close()
    return found


def value(features: dict[str, Any], name: str, array: Any, **defaults: str) -> Any:
    return Features(features, defaults).value(name, array, lambda row: f"row {row}")


def test_a_missing_column_and_two_of_one_name_are_refused() -> None:
    check_columns(["a", "b"], ["b"])
    check_different("x.csv", ["a", "b"])
    with pytest.raises(DataError, match=r"no column 'c': they have a, b\.$"):
        check_columns(["a", "b"], ["a", "c"])
    with pytest.raises(DataError, match=r"c29, \.\.\.\.$"):
        check_columns([f"c{number}" for number in range(31)], ["x"])
    with pytest.raises(DataError, match=r"x\.csv has two columns of the name 'b'"):
        check_different("x.csv", ["a", "b", "b"])


def test_an_own_default_counts_more_than_a_pattern(features: dict[str, Any]) -> None:
    spec = DataSpec([], defaults=[("name", "n"), ("*", "0"), ("other", "1")])
    assert defaults_for(spec, features, ["name", "other"]) == {"price": "0", "ids": "0", "name": "n", "other": "1"}
    for name in ("none", "x*"):
        with pytest.raises(DataError, match="no column"):
            defaults_for(DataSpec([], defaults=[(name, "0")]), features, ["name"])
    assert defaults_for(DataSpec([], defaults=[("none", "0")]), features, None) == {"none": "0"}


def test_dense_values_and_texts(features: dict[str, Any]) -> None:
    np.testing.assert_array_equal(value(features, "price", pa.array([1.5, 2.5])), [1.5, 2.5])
    assert value(features, "name", pa.array(["a", "b", "a"])).tolist() == [b"a", b"b", b"a"]
    np.testing.assert_array_equal(value(features, "price", pa.array([1.5, None]), price="7"), [1.5, 7])


def test_a_missing_value_is_named_by_its_row(features: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"row 1 has no value in column price: give one by --default=price=VALUE"):
        value(features, "price", pa.array([1.5, None, 2.0]))


def test_missing_lists_have_a_default_of_json(features: dict[str, Any]) -> None:
    found = value(features, "ids", pa.array([[1, 2], None, []]), ids="[9]")
    assert found.to_list() == [[1, 2], [9], []]


def test_a_default_of_digits_stays_a_text(features: dict[str, Any]) -> None:
    found = Features(features, {"name": "12", "price": "12"})
    assert found._default("name") == "12" and found._default("price") == 12 and found._default("ids") is None


@dataclasses.dataclass
class Files(Data):
    files: Any = ()
    parts: int = 1
    columns: Any = None

    def read(self, part: int, batch_size: int) -> Any:
        raise NotImplementedError


def test_files_are_told_apart_by_size_and_time(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    os.utime(path, ns=(1, 5))
    assert Files([str(path)]).identity() == [[str(path), 1, 5]]
    path.write_text("xy")
    os.utime(path, ns=(1, 6))
    assert Files([str(path)]).identity() == [[str(path), 2, 6]]
