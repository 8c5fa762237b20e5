"""Results: one type for each column over all chunks, no value changed for it, and files of every format."""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.saved.scoring.scored_rows import Results, arrow_of, format_of_result, plain

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def joined(
    directory: pathlib.Path, kind: str, chunks: Sequence[Sequence[dict[str, Any]]], outputs: Sequence[str] = ("p",),
    is_gzipped: bool = False, of_examples: bool = False, of_json_texts: bool = False,
) -> pathlib.Path:  # fmt: skip
    """Writes chunks of batches: a list is a carried column, numpy a prediction."""
    results = Results(kind, outputs, is_gzipped, of_examples, of_json_texts)
    paths = []
    for number, chunk in enumerate(chunks):
        paths.append(str(directory / f"{number}"))
        scored = [
            (
                {n: v if isinstance(v, pa.Array) else pa.array(v) for n, v in batch.items() if n not in outputs},
                {n: v for n, v in batch.items() if n in outputs},
            )
            for batch in chunk
        ]
        results.write(paths[-1], scored)
    results.join(paths, str(directory / "whole"))
    return directory / "whole"


P = np.float32([0.1])


@pytest.mark.parametrize("is_one_chunk", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "kind", "found"),
    [
        ([1], [2], "int64", [1, 2]),
        ([1], [0.5], "double", [1.0, 0.5]),
        ([2**53 + 1], [0.5], "string", ["9007199254740993", "0.5"]),
        ([1], ["x"], "string", ["1", "x"]),
        ([None], [3], "int64", [None, 3]),
        ([True], ["x"], "string", ["true", "x"]),
        ([[1]], [[0.5, 2]], "list<element: double>", [[1.0], [0.5, 2.0]]),
    ],
)
def test_a_column_has_one_type_and_no_value_is_changed_for_it(
    tmp_path: pathlib.Path, first: Any, second: Any, kind: str, found: Any, is_one_chunk: bool
) -> None:
    batches = [{"x": first, "p": P}, {"x": second, "p": P}]
    table = pq.read_table(joined(tmp_path, "parquet", [batches] if is_one_chunk else [[one] for one in batches]))
    assert table["x"].to_pylist() == found and str(table["x"].type) == kind
    assert table["p"].to_pylist() == [P[0]] * 2


def test_columns_of_later_rows_come_after_and_predictions_last(tmp_path: pathlib.Path) -> None:
    chunks = [[{"b": [1], "q": P, "p": P}], [{"p": P, "a": [2], "q": P}]]
    for of_examples, names in ((False, ["b", "a", "p", "q"]), (True, ["a", "b", "p", "q"])):
        table = pq.read_table(joined(tmp_path, "parquet", chunks, ["p", "q"], of_examples=of_examples))
        assert table.column_names == names
        assert table["a"].to_pylist() == [None, 2] and table["b"].to_pylist() == [1, None]


def test_a_value_of_an_example_is_a_list_where_others_are(tmp_path: pathlib.Path) -> None:
    chunks = [[{"x": [5, None], "p": P.repeat(2)}], [{"x": [[1, 2]], "p": P}, {"x": [[0.5]], "p": P}]]
    table = pq.read_table(joined(tmp_path, "parquet", chunks, of_examples=True))
    assert table["x"].to_pylist() == [[5.0], None, [1.0, 2.0], [0.5]]
    table = pq.read_table(joined(tmp_path, "parquet", chunks))
    assert table["x"].to_pylist() == ["5", None, "[1.0, 2.0]", "[0.5]"], "rows of other files keep their form"


BATCH = {
    "x": ['a,"b"', "c\r", "", None], "n": [1, None, 3, 4], "l": [["u", "v"], [], None, ["w"]],
    "p": np.float32([0.1, 0.2, 1, np.nan]),
}  # fmt: skip


def test_cells_of_csv_are_quoted_where_they_must_be(tmp_path: pathlib.Path) -> None:
    text = joined(tmp_path, "csv", [[BATCH]]).read_bytes().decode()
    assert text == 'x,n,l,p\n"a,""b""",1,u|v,0.1\n"c\r",,,0.2\n,3,,1.0\n,4,w,nan\n'
    assert joined(tmp_path, "csv", [[{"x": [None, "a"]}]], []).read_text() == 'x\n""\na\n', "no line is empty"


def test_a_tsv_has_no_quotes_and_refuses_what_would_need_them(tmp_path: pathlib.Path) -> None:
    text = joined(tmp_path, "tsv", [[{"x": ['a,"b"', ""], "p": P.repeat(2)}]]).read_text()
    assert text == 'x\tp\na,"b"\t0.1\n\t0.1\n'
    for end in "\t\r\n":
        with pytest.raises(DataError, match="a cell has a tab or a line end, which a tsv cannot have"):
            joined(tmp_path, "tsv", [[{"x": [f"a{end}"], "p": P}]])


def test_lines_of_json_have_all_columns(tmp_path: pathlib.Path) -> None:
    lines = joined(tmp_path, "jsonl", [[{**BATCH, "p": BATCH["p"][:, None]}]]).read_text().splitlines()
    assert lines[0] == '{"x": "a,\\"b\\"", "n": 1, "l": ["u", "v"], "p": [0.1]}'
    assert json.loads(lines[2]) == {"x": "", "n": 3, "l": None, "p": [1.0]}


def test_texts_of_json_are_carried_as_they_are_but_predictions_are_not(tmp_path: pathlib.Path) -> None:
    batch = {"ü": ["1.50", None, '{"a": [ ]}'], "p": np.array([b"t", b"", b"\xff"], object)}
    lines = joined(tmp_path, "jsonl", [[batch]], of_json_texts=True).read_text().splitlines()
    assert lines == ['{"ü": 1.50, "p": "t"}', '{"ü": null, "p": ""}', '{"ü": {"a": [ ]}, "p": "\\\\xff"}']


def test_a_packed_result_is_the_same_file_each_time(tmp_path: pathlib.Path) -> None:
    packed = joined(tmp_path, "csv", [[BATCH]], is_gzipped=True).read_bytes()
    assert gzip.decompress(packed) == joined(tmp_path, "csv", [[BATCH]]).read_bytes()
    assert packed == joined(tmp_path, "csv", [[BATCH]], is_gzipped=True).read_bytes()


@pytest.mark.parametrize("is_gzipped", [False, True])
def test_examples_have_lists_of_one_kind_and_none_for_a_missing_value(tmp_path: pathlib.Path, is_gzipped: bool) -> None:
    batch = {"x": ["a", None], "b": [True, False], "n": [[1, 2], []], "f": [1.5, 2], "p": np.float32([[[1], [2]]] * 2)}
    path = joined(tmp_path, "tfrecord", [[batch]], is_gzipped=is_gzipped)
    read = tf.data.TFRecordDataset(str(path), "GZIP" if is_gzipped else "")
    first, second = (tf.train.Example.FromString(one.numpy()).features.feature for one in read)
    assert list(first["x"].bytes_list.value) == [b"a"] and "x" not in second
    assert list(first["b"].int64_list.value) == [1] and list(second["b"].int64_list.value) == [0]
    assert list(first["n"].int64_list.value) == [1, 2] and second["n"].WhichOneof("kind") == "int64_list"
    assert list(second["f"].float_list.value) == [2.0] and list(first["p"].float_list.value) == [1.0, 2.0]


def test_a_number_that_an_example_cannot_have_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match=r"^x=\[18446744073709551615\] does not fit into a tf\.train\.Example"):
        joined(tmp_path, "tfrecord", [[{"x": pa.array([2**64 - 1], pa.uint64()), "p": P}]])


@pytest.mark.parametrize(
    "values",
    [
        np.arange(24, dtype=np.int32).reshape(2, 3, 4), np.zeros([3, 0], np.float32), np.zeros([0], np.int64),
        np.array([[b"a", b"b"], [b"c", b""]], object), np.array([True, False]),
    ],
)  # fmt: skip
def test_an_array_is_arrows_lists(values: np.ndarray) -> None:
    expected = values.tolist()
    if values.dtype == object:
        expected = [[one.decode() for one in row] for row in expected]
    assert arrow_of(values).to_pylist() == expected


def test_bytes_that_are_no_text_stay_bytes_and_short_floats_become_floats() -> None:
    assert arrow_of(np.array([b"a", b"\xff"], object)).to_pylist() == [b"a", b"\xff"]
    found = arrow_of(np.array([0.5, 2], tf.bfloat16.as_numpy_dtype))
    assert found.type == pa.float32() and found.to_pylist() == [0.5, 2]


def test_a_float_has_as_few_digits_as_tell_it_from_others() -> None:
    floats = pa.array([0.1, None, 1e-30], pa.float32())
    assert plain(floats) == [0.1, None, 1e-30] and plain(pa.array([0.1], pa.float64())) == [0.1]
    assert plain(pa.array([0.1], pa.float16())) == [0.099975586] and plain(pa.array([b"a", b"\xff"])) == ["a", "\\xff"]
    lists = pa.array([[0.1, 0.2], None, [], [0.3]], pa.list_(pa.float32()))
    assert plain(lists) == plain(lists.cast(pa.large_list(pa.float32()))) == [[0.1, 0.2], None, [], [0.3]]
    assert plain(lists[2:]) == [[], [0.3]]
    assert plain(pa.chunked_array([lists, lists[:1]])) == [[0.1, 0.2], None, [], [0.3], [0.1, 0.2]]


def test_the_format_of_a_result_follows_from_its_name_or_the_flag() -> None:
    assert format_of_result("a.csv.gz", "") == "csv" and format_of_result("a.txt", "tsv") == "tsv"
    with pytest.raises(ConfigError, match=r"to=a\.txt has no format by its name: let it end with one of \.parquet, \."):
        format_of_result("a.txt", "")
    with pytest.raises(ConfigError, match=r"Parquet files are compressed by themselves; leave \.gz out"):
        format_of_result("a.parquet.gz", "")
