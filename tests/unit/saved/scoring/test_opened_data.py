"""The format of data: given, by the files' names, or by their first bytes."""

from __future__ import annotations

import gzip
import pathlib
from typing import Any

import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.saved.scoring.file_rows import RecordData
from ps_train.saved.scoring.opened_data import _format_of, open_data
from ps_train.saved.scoring.rows import DataSpec

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


class Model:
    path, features = "export/1", {}

    def __init__(self, takes_examples: bool) -> None:
        self.takes_examples = takes_examples


def record_file(path: pathlib.Path) -> bytes:
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"x")
    return path.read_bytes()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"a,b\n1,2\n", "csv"),
        (b"a\tb\n1\t2\n", "tsv"),
        (b"a\n1\t2\n", "csv"),
        (b' \n {"a": 1}\n', "jsonl"),
        (b"", "csv"),
    ],
)
def test_first_bytes_tell_the_format(tmp_path: pathlib.Path, content: bytes, kind: str, packed: bool) -> None:
    path = tmp_path / "part-0"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert _format_of([str(path)]) == kind


def test_parquet_and_record_files_have_marks(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "parquet")
    record_file(tmp_path / "records")
    assert _format_of([str(tmp_path / "parquet")]) == "parquet"
    assert _format_of([str(tmp_path / "records")]) == "tfrecord"


def test_names_count_more_than_content_and_must_agree(tmp_path: pathlib.Path) -> None:
    for name in ("a.tsv", "b.csv"):
        (tmp_path / name).write_text("a,b\n")
    assert _format_of([str(tmp_path / "a.tsv")]) == "tsv"
    with pytest.raises(DataError, match=r"of different formats \(csv, tsv\)"):
        _format_of([str(tmp_path / "a.tsv"), str(tmp_path / "b.csv")])


def test_examples_need_a_model_that_takes_them(tmp_path: pathlib.Path) -> None:
    record_file(tmp_path / "a.tfrecord")
    spec = DataSpec([str(tmp_path)])
    takes: Any = Model(takes_examples=True)
    refuses: Any = Model(takes_examples=False)
    assert isinstance(open_data(spec, takes), RecordData)
    with pytest.raises(DataError, match=r"export/1 has no signature for tf\.train\.Examples"):
        open_data(spec, refuses)
    with pytest.raises(ConfigError, match="--types is for csv, tsv and jsonl"):
        open_data(DataSpec([str(tmp_path)], types={"a": "int"}), takes)
