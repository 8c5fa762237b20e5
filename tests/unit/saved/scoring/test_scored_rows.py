"""Results of rows: columns of all chunks, each of one type, whose values never change for that."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.saved.scoring.scored_rows import Results, arrow_of, format_of_result, plain

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def joined(
    tmp_path: pathlib.Path, kind: str, *chunks: dict[str, list], gz: bool = False, examples: bool = False
) -> Any:
    """The bytes of a result whose chunks have these carried columns, and the prediction `p`."""
    results, paths = Results(kind, ["p"], gz, examples, False), []
    for number, carried in enumerate(chunks):
        count = len(next(iter(carried.values())))
        columns = {name: pa.array(values) for name, values in carried.items()}
        paths.append(str(tmp_path / f"chunk-{number}"))
        results.write(paths[-1], [(columns, {"p": np.arange(count, dtype=np.float32) / 10})])
    results.join(paths, str(tmp_path / "whole"))
    return (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize(
    ("path", "kind", "found"), [("a.csv.gz", "", "csv"), ("a", "tsv", "tsv"), ("a.csv", "jsonl", "jsonl")]
)
def test_the_format_is_given_or_that_of_the_name(path: str, kind: str, found: str) -> None:
    assert format_of_result(path, kind) == found


def test_a_result_without_a_format_or_packed_parquet_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"to=out has no format by its name"):
        format_of_result("out", "")
    for path, kind in (("a.parquet.gz", ""), ("a.gz", "parquet")):
        with pytest.raises(ConfigError, match=r"leave \.gz out"):
            format_of_result(path, kind)


def test_lines_of_csv_are_quoted_where_they_must_be(tmp_path: pathlib.Path) -> None:
    found = joined(tmp_path, "csv", {"a": ["x", 'y"z', "u,v", None, "l\nm"]}).decode()
    assert found == 'a,p\nx,0.0\n"y""z",0.1\n"u,v",0.2\n,0.3\n"l\nm",0.4\n'


def test_tabs_cannot_be_in_a_tsv(tmp_path: pathlib.Path) -> None:
    assert joined(tmp_path, "tsv", {"a": [1, 2], "b": [[1, 2], []]}).decode().splitlines()[0] == "a\tb\tp"
    with pytest.raises(DataError, match="a cell has a tab or a line end"):
        joined(tmp_path, "tsv", {"a": ["x\ty"]})


def test_a_packed_result_is_the_same_bytes_every_time(tmp_path: pathlib.Path) -> None:
    first, second = (joined(tmp_path, "jsonl", {"a": [1, 2]}, gz=True) for _ in range(2))
    assert first == second and b"whole" not in first
    lines = gzip.decompress(first).decode().splitlines()
    assert [json.loads(line) for line in lines] == [{"a": 1, "p": 0.0}, {"a": 2, "p": 0.1}]
    assert lines[1] == '{"a": 2, "p": 0.1}'  # as few digits as tell the float32


def test_columns_of_all_chunks_get_a_common_type(tmp_path: pathlib.Path) -> None:
    joined(tmp_path, "parquet", {"a": [1, 2], "b": [True, False]}, {"a": [0.5], "c": ["x"]})
    table = pq.read_table(tmp_path / "whole")
    assert table.column_names == ["a", "b", "c", "p"]
    assert table.column("a").to_pylist() == [1.0, 2.0, 0.5] and table.column("c").to_pylist() == [None, None, "x"]


def test_a_column_without_a_common_type_for_its_values_is_one_of_texts(tmp_path: pathlib.Path) -> None:
    large = 2**53 + 1
    joined(tmp_path, "parquet", {"a": [large], "b": [1]}, {"a": [0.5], "b": ["x"]})
    table = pq.read_table(tmp_path / "whole")
    assert table.column("a").to_pylist() == [str(large), "0.5"] and table.column("b").to_pylist() == ["1", "x"]


def test_columns_of_examples_are_lists_in_all_rows_and_sorted(tmp_path: pathlib.Path) -> None:
    joined(tmp_path, "parquet", {"z": [1], "a": [2]}, {"a": [[3, 4]]}, examples=True)
    table = pq.read_table(tmp_path / "whole")
    assert table.column_names == ["a", "z", "p"] and table.column("a").to_pylist() == [[2], [3, 4]]


def test_records_are_examples(tmp_path: pathlib.Path) -> None:
    joined(
        tmp_path, "tfrecord", {"i": [1], "f": [0.5], "s": ["x"], "l": [[1, 2]], "none": pa.array([None], pa.int64())}
    )
    (record,) = tf.data.TFRecordDataset(str(tmp_path / "whole")).as_numpy_iterator()
    found = tf.train.Example.FromString(record).features.feature
    assert sorted(found) == ["f", "i", "l", "p", "s"]
    assert [*found["l"].int64_list.value] == [1, 2] and [*found["f"].float_list.value] == [0.5]
    assert [*found["s"].bytes_list.value] == [b"x"]
    with pytest.raises(DataError, match=r"i=\[.*does not fit into a tf\.train\.Example"):
        joined(tmp_path, "tfrecord", {"i": pa.array([2**64 - 1], pa.uint64())})


def test_arrays_of_predictions_keep_their_shape_and_texts() -> None:
    values = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    assert arrow_of(values).to_pylist() == values.tolist()
    assert arrow_of(np.zeros([2, 0], np.float32)).to_pylist() == [[], []]
    assert arrow_of(np.array([b"a", "ü".encode()], object)).to_pylist() == ["a", "ü"]
    assert arrow_of(np.array([b"\xff"], object)).type == pa.binary()
    assert arrow_of(np.array([1.5], tf.bfloat16.as_numpy_dtype)).to_pylist() == [1.5]


def test_floats_are_shown_in_few_digits_also_within_lists() -> None:
    assert plain(pa.array([0.1, None], pa.float32())) == [0.1, None]
    assert plain(pa.array([[0.1], None, []], pa.list_(pa.float32()))) == [[0.1], None, []]
