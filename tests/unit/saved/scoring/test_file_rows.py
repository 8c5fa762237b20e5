"""Rows of Parquet and TFRecord files for `predict`: columns of all rows, types and lists."""

from __future__ import annotations

import io
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.console import Console
from ps_train.commands.scoring.predict import predict
from tests.support.saved.exported_models import write_export

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def run(export: pathlib.Path | str, data: pathlib.Path, to: pathlib.Path, *options: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    flags = [f"--export_dir={export}", f"--data={data}", f"--to={to}"]
    return predict([*flags, *options], Console(out, err)), err.getvalue()


def example(**values: list) -> tf.train.Example:
    made = tf.train.Example()
    for name, some in {"price": [1.0], "name": [b"a"], "ids": [2], **values}.items():
        feature = made.features.feature[name]
        kinds = {float: feature.float_list, bytes: feature.bytes_list, int: feature.int64_list}
        kinds[type(some[0]) if some else int].value.extend(some)
        feature.SetInParent()
    return made


EXAMPLES = [
    example(user=[1234567890123456789], raw=[b"\xff\0"], ids=[]),
    example(raw=[b"b\0"], later=[0.5]),
    example(ids=[3, 4], raw=[b"c"]),
]


def test_columns_that_only_later_examples_have_are_carried(tmp_path: pathlib.Path) -> None:
    export, data = write_export(tmp_path / "export"), tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(data)) as writer:
        for one in EXAMPLES:
            writer.write(one.SerializeToString())
    for kind in ("parquet", "jsonl", "csv", "tfrecord"):
        assert run(export, data, tmp_path / f"out.{kind}", "--batch_size=1") == (0, "")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["user"].to_pylist() == [1234567890123456789, None, None]
    assert table["later"].to_pylist() == [None, 0.5, None] and table["ids"].to_pylist() == [[], [2], [3, 4]]
    assert table["raw"].to_pylist() == [b"\xff\0", b"b\0", b"c"] and table["name"].to_pylist() == ["a"] * 3
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [one["ids"] for one in found] == [[], [2], [3, 4]] and found[0]["raw"] == "\\xff\0"
    assert (tmp_path / "out.csv").read_text().startswith("ids,later,name,price,raw,user,pair,score\n")
    records = [
        tf.train.Example.FromString(one.numpy()) for one in tf.data.TFRecordDataset(str(tmp_path / "out.tfrecord"))
    ]
    for record, given in zip(records, EXAMPLES, strict=True):
        for name in ("pair", "score"):
            del record.features.feature[name]
        assert record == given


@pytest.fixture
def image_model(tmp_path: pathlib.Path) -> pathlib.Path:
    """A model of a dense feature [2, 2, 1] and texts [2]."""
    with tf.Graph().as_default(), v1.Session() as session:
        image, words = v1.placeholder(tf.float32, [None, 2, 2, 1]), v1.placeholder(tf.string, [None, 2])
        sums = tf.reduce_sum(image, [1, 2, 3]) + tf.cast(tf.reduce_sum(tf.strings.length(words), 1), tf.float32)
        v1.saved_model.simple_save(
            session, str(tmp_path / "image"), {"image": image, "words": words}, {"sum": sums, "twice": 2 * image}
        )
    return tmp_path / "image"


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_lists_of_one_length_are_a_dense_feature_of_any_rank(
    tmp_path: pathlib.Path, image_model: pathlib.Path, kind: str
) -> None:
    images = np.arange(12.0).reshape(3, 2, 2, 1)
    records = [{"image": one.tolist(), "words": ["a\0", "b"]} for one in images]
    data, wrong = tmp_path / f"a.{kind}", tmp_path / f"wrong.{kind}"
    for path, some in ((data, records), (wrong, [*records, {"image": [[[1], [2]], [[3]]], "words": ["a", "b"]}])):
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(some), path)
        else:
            path.write_text("".join(json.dumps(one) + "\n" for one in some))
    for result in ("jsonl", "parquet"):
        assert run(image_model, data, tmp_path / f"out.{result}", "--columns=words") == (0, "")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [one["sum"] for one in found] == (images.sum((1, 2, 3)) + 3).tolist()
    assert [one["twice"] for one in found] == (2 * images).tolist() and found[0]["words"] == ["a\0", "b"]
    assert pq.read_table(tmp_path / "out.parquet")["twice"].to_pylist() == (2 * images).tolist()
    code, err = run(image_model, wrong, tmp_path / "wrong.csv")
    assert (code, err.count("\n")) == (2, 1) and "image has lists of different lengths" in err


def test_a_missing_value_is_told_with_its_row(tmp_path: pathlib.Path) -> None:
    export, data = write_export(tmp_path / "export"), tmp_path / "a.parquet"
    rows = {"price": [1.0] * 9 + [None], "ids": [[1]] * 10, "name": ["a"] * 10}
    pq.write_table(pa.table(rows), data, row_group_size=4)
    code, err = run(export, data, tmp_path / "out.csv", "--batch_size=1")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{data} row 9, counted from 0, has no value in column price: give one by --default=price=VALUE." in err
    code, err = run(export, data, tmp_path / "out.csv", "--types=price=string")
    assert (code, err.count("\n")) == (2, 1) and "--types is for csv, tsv and jsonl" in err
