"""Rows that a model's own data reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train import Arrays, Model
from ps_train.base.errors import DataError
from ps_train.saved.scoring.model_rows import ModelData

pytest.importorskip("pyarrow")
HERE = "tests.unit.saved.scoring.test_model_rows"


class Rows(Model):
    """Data of some kind; it is given `data_dir` as a text."""

    def __init__(self, kind: str = "arrays") -> None:
        self.kind = kind

    def data(self, split: str, data_dir: str) -> Any:
        x, y = np.arange(5, dtype=np.float32), np.arange(5) % 2
        if split != "test":
            return None if split == "none" else Arrays(x[:0], y[:0])
        if self.kind == "several":
            data = {"price": x, "name": np.array([b"a", b"b", b"\xff", b"d", data_dir.encode()])}
            return tf.data.Dataset.from_tensor_slices((data, {"click": y, "buy": y * 2}))
        return Arrays(x, y)

    def forward(self, features: Any, training: bool) -> Any:
        raise NotImplementedError

    def loss(self, outputs: Any, labels: Any) -> Any:
        raise NotImplementedError


def data_of(kind: str, split: str = "test", wanted: tuple[str, ...] = ()) -> ModelData:
    return ModelData(f"{HERE}:Rows", {"kind": kind}, split, "here", wanted)


def test_features_are_values_and_labels_are_columns() -> None:
    found = data_of("arrays", wanted=("label",))
    assert (found.parts, found.columns, found.identity()) == (1, ["label"], [[f"{HERE}:Rows test"]])
    batches = list(found.read(0, 2))
    assert [len(rows) for rows in batches] == [2, 2, 1]
    assert np.concatenate([rows.values()["features"] for rows in batches]).tolist() == [0, 1, 2, 3, 4]
    assert [one for rows in batches for one in rows.carried(None)["label"].to_pylist()] == [0, 1, 0, 1, 0]
    assert batches[0].carried(["label"]).keys() == {"label"} and batches[0].carried([]) == {}


def test_several_features_and_labels_keep_their_names_and_any_bytes() -> None:
    found = data_of("several")
    assert sorted(found.columns) == ["buy", "click"]
    (rows,) = found.read(0, 10)
    assert rows.values()["name"].tolist() == [b"a", b"b", b"\xff", b"d", b"here"]
    assert rows.carried(["buy"])["buy"].to_pylist() == [0, 2, 0, 2, 0]


@pytest.mark.parametrize("split", ["none", "empty"])
def test_a_split_without_examples_is_refused(split: str) -> None:
    with pytest.raises(DataError, match=rf"data\('{split}', 'here'\) of .*:Rows has no examples: check --data"):
        data_of("arrays", split)


def test_a_label_that_is_not_there_is_refused() -> None:
    with pytest.raises(DataError, match="no column 'click': they have label"):
        data_of("arrays", wanted=("click",))
