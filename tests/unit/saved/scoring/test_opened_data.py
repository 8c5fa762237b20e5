"""Which reader opens the files of a command: by the flag, the names, or the first bytes."""

from __future__ import annotations

import gzip
import pathlib
import types
from typing import Any

import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.saved.scoring.file_rows import ParquetData, RecordData
from ps_train.saved.scoring.opened_data import open_data
from ps_train.saved.scoring.rows import Data, DataSpec
from ps_train.saved.scoring.text_rows import CellData, JsonData

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TEXTS = {"csv": b"a,b\n1,2\n", "tsv": b"a\tb\n1\t2\n", "jsonl": b' {"a": 1, "b": 2}\n'}
READERS = {"csv": CellData, "tsv": CellData, "jsonl": JsonData, "parquet": ParquetData, "tfrecord": RecordData}


def opened(files: list[Any], takes_examples: bool = True, result: str = "", **spec: Any) -> Data:
    exported: Any = types.SimpleNamespace(takes_examples=takes_examples, path="export/1", features={})
    return open_data(DataSpec([str(path) for path in files], **spec), exported, result=result)


def write(path: pathlib.Path, kind: str) -> pathlib.Path:
    if kind == "parquet":
        pq.write_table(pa.table({"a": [1], "b": [2]}), path)
    elif kind == "tfrecord":
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(b"x")
    else:
        path.write_bytes(TEXTS[kind])
    return path


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("name", ["data", "data.gz", "data.{}"])
def test_names_or_first_bytes_tell_the_format(tmp_path: pathlib.Path, kind: str, name: str) -> None:
    path = write(tmp_path / name.format(kind), kind)
    if name.endswith(".gz") and kind != "parquet":
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = opened([path])
    assert type(found) is READERS[kind] and found.files == [str(path)]
    if kind in TEXTS:
        assert list(found.columns or ["a", "b"]) == ["a", "b"], "the delimiter is the right one"


@pytest.mark.parametrize("content", [b"a\n1\t2\n", b"x"])
def test_only_a_tab_in_the_first_line_makes_a_tsv(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "data").write_bytes(content + b"\n")
    found = opened([tmp_path / "data"])
    assert type(found) is CellData and "\t" not in "".join(found.columns or ())


def test_the_flag_counts_more_than_the_name(tmp_path: pathlib.Path) -> None:
    found = opened([write(tmp_path / "x.csv", "jsonl")], format="jsonl")
    assert type(found) is JsonData


def test_texts_are_carried_as_they_are_where_the_result_is_alike(tmp_path: pathlib.Path) -> None:
    json, cells = write(tmp_path / "x.jsonl", "jsonl"), write(tmp_path / "x.csv", "csv")
    for result in ("csv", "tsv", "jsonl", "parquet"):
        assert opened([json], result=result).is_of_json_texts == (result == "jsonl"), result
        (rows,) = opened([cells], result=result, types={"a": "int64"}).read(0, 9)
        assert (rows.carried(["a"])["a"].type == pa.string()) == (result in ("csv", "tsv")), result


def test_what_does_not_fit_is_refused(tmp_path: pathlib.Path) -> None:
    parquet, records = write(tmp_path / "a.parquet", "parquet"), write(tmp_path / "b.tfrecord", "tfrecord")
    with pytest.raises(DataError, match=r"different formats \(parquet, tfrecord\): give files of one format"):
        opened([parquet, records])
    for path, kind in ((parquet, "parquet"), (records, "tfrecord")):
        with pytest.raises(ConfigError, match=f"--types is for csv, tsv and jsonl: the columns of {kind} files"):
            opened([path], types={"a": "int64"})
    with pytest.raises(DataError, match=r"export/1 has no signature for tf\.train\.Examples: give data with columns"):
        opened([records], takes_examples=False)
