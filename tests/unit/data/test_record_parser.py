"""Records that cannot be parsed are found, described, left out up to the limit, and an error above it."""

from __future__ import annotations

import gzip
import logging
import pathlib
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import TextLines, TFRecords
from ps_train.data import pipeline_error
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import DataSource, evaluation_batches, training_batches
from ps_train.data.stream import Stream, data_error


def labels_of(data: Any, replica: int = 0, replicas: int = 1, epochs: int = 1, shuffled: int = 0) -> list[int]:
    """The labels of an epoch in their order; raises the DataError of a fault."""
    found: list[int] = []
    with tf.Graph().as_default(), v1.Session() as session:
        data = data() if callable(data) else data
        batches = training_batches(data, DataShard(replica, replicas), 7, epochs, shuffled)
        session.run(batches.initializer, batches.feeds(1))
        try:
            while True:
                found += session.run(batches.labels).tolist()
        except tf.errors.OutOfRangeError:
            return found
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            raise data_error(error) or error from None


def limited(stream: Stream, bad_lines: int) -> Stream:
    stream.set_max_bad_lines(bad_lines)
    return stream


def parse_csv(lines: tf.Tensor) -> Any:
    label, weight, name = tf.io.decode_csv(lines, [[0], tf.constant([], tf.float32), [""]])
    return {"weight": weight, "name": name}, label


def parse_example(records: tf.Tensor) -> Any:
    spec = {
        "label": tf.io.FixedLenFeature([], tf.int64),
        "ids": tf.io.VarLenFeature(tf.int64),
        "pair": tf.io.FixedLenFeature([2], tf.int64, [0, 0]),
    }
    features = tf.io.parse_example(records, spec)
    return features, features.pop("label")


LINES = {
    "1,2,x,y": "4 columns instead of 3 ('1,2,x,y')",
    "1,2": "2 columns instead of 3 ('1,2')",
    "1.5,2,x": "column 1 is '1.5', which is not a valid int32",
    "99999999999,2,x": "column 1 is '99999999999', which is not a valid int32",
    "1,two,x": "column 2 is 'two', which is not a valid float",
    "1,,x": "column 2 is empty, and has no default value",
    '1,2,"a': "a quoted field does not end before a delimiter or the line's end ('1,2,\"a'); no field may contain",
    '1,2,a"b': "a field that does not begin with a quote has one inside ('1,2,a\"b')",
    f"1,{'y' * 500},x": f"column 2 is '{'y' * 77}...', which",
}


def example(**features: Any) -> bytes:
    made = tf.train.Features()
    for name, values in features.items():
        kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(values[0])]
        getattr(made.feature[name], kind).value.extend(values)
    return tf.train.Example(features=made).SerializeToString()


RECORDS = {
    "not an example": (b"hello", "not a tf.train.Example ('hello')"),
    "no label": (example(ids=[1]), "feature 'label' is missing: int64 is expected"),
    "a float": (example(label=[1.5]), "feature 'label' has [1.5], float values instead of int64"),
    "a text": (example(label=[1], ids=[b"x"]), "feature 'ids' has [b'x'], string values instead of int64"),
    "doubled": (example(label=[4, 5]), "feature 'label' has [4, 5], 2 values of int64, which do not fit the shape []"),
    "no pair": (
        example(label=[1], pair=[1, 2, 3]),
        "has [1, 2, 3], 3 values of int64, which do not fit the shape [2]",
    ),
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", ["train.csv", "train.csv.gz"])
@pytest.mark.usual(1)
def test_a_line_that_cannot_be_parsed_is_named_by_file_line_column_and_value(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, name: str, line: str
) -> None:
    lines = ["label,weight,name", *(f"{number},0.5,x" for number in range(20)), "", line, "20,0.5,x", ""]
    text = "\r\n".join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    words = f"{tmp_path / name} line 23: {LINES[line]}"
    with caplog.at_level(logging.WARNING):
        assert labels_of(lambda: TextLines(f"{tmp_path}/*", parse_csv, has_header=True)) == list(range(21))
    assert words in caplog.text and "; the line is skipped" in caplog.text
    with pytest.raises(Exception) as caught:
        labels_of(lambda: limited(TextLines(f"{tmp_path}/*", parse_csv, has_header=True), 0))
    assert str(caught.value).startswith(words) and "\n" not in str(caught.value)
    assert "That is malformed line number 1, and max_bad_lines=0: correct the data or raise" in str(caught.value)


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.usual(1)
def test_a_record_that_cannot_be_parsed_is_named_by_file_number_and_feature(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, compression: str, kind: str
) -> None:
    bad, fault = RECORDS[kind]
    with tf.io.TFRecordWriter(f"{tmp_path}/train-0", compression) as writer:
        for number in range(600):
            writer.write(bad if number == 300 else example(label=[number], pair=[1, 2]))
    kept = [number for number in range(600) if number != 300]
    words = f"{tmp_path}/train-0 record 300: {fault}"
    for replicas in (1, 2):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found = [
                label
                for replica in range(replicas)
                for label in labels_of(
                    lambda: TFRecords(f"{tmp_path}/*", parse_example), replica, replicas, shuffled=50
                )
            ]
        assert sorted(found) == kept
        assert caplog.text.count(words) == 1, replicas
    with pytest.raises(Exception) as caught:
        labels_of(lambda: limited(TFRecords(f"{tmp_path}/*", parse_example), 0))
    assert str(caught.value).startswith(words)
    assert "That is malformed record number 1, and max_bad_lines=0" in str(caught.value)


def test_a_record_counts_once_over_all_epochs_and_one_more_than_the_limit_is_an_error(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "train.csv").write_text(
        "".join("x,1,x\n" if number % 3 == 0 else f"{number},1,x\n" for number in range(60))
    )
    kept = [number for number in range(60) if number % 3]
    with caplog.at_level(logging.WARNING):
        assert labels_of(lambda: limited(TextLines(f"{tmp_path}/*", parse_csv), 20), epochs=3) == kept * 3
    assert caplog.text.count("the line is skipped") == 5
    assert caplog.text.count("10 malformed lines are skipped so far, the last: ") == 1
    with pytest.raises(Exception, match=r"line 58: .*malformed line number 20, and max_bad_lines=19"):
        labels_of(lambda: limited(TextLines(f"{tmp_path}/*", parse_csv), 19))


def test_pieces_and_evaluation_leave_malformed_records_out_too(tmp_path: pathlib.Path) -> None:
    with tf.io.TFRecordWriter(f"{tmp_path}/train") as writer:
        for number in range(300):
            writer.write(b"?" if number == 7 else example(label=[number]))
    (tmp_path / "lines.csv").write_text("1,2,x\nx,2,x\n3,2,x\n")
    for make, expected in (
        (lambda: TFRecords(f"{tmp_path}/train", parse_example), [*range(7), *range(8, 300)]),
        (lambda: TextLines(f"{tmp_path}/lines.csv", parse_csv), [1, 3]),
    ):
        with tf.Graph().as_default(), v1.Session() as session:
            assert session.run(make().pieces().read(tf.constant(0, tf.int64))[1]).tolist() == expected
            batches = evaluation_batches(make(), 1000)
            session.run(batches.initializer)
            assert session.run(batches.labels).tolist() == expected


def test_the_limit_is_that_of_the_job(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.csv").write_text("1,2,x\nx,2,x\n")
    source = DataSource(lambda: TextLines(f"{tmp_path}/*", parse_csv), max_bad_lines=0)
    with pytest.raises(Exception, match="max_bad_lines=0"):
        labels_of(source.get)


def test_a_fault_that_parse_itself_tells_of_is_no_malformed_record(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.csv").write_text("1\n2\n")

    def fail(lines: Any) -> Any:
        raise pipeline_error("the vocabulary has no row")

    def parse(lines: tf.Tensor) -> Any:
        found = tf.ensure_shape(tf.numpy_function(fail, [lines], tf.int64), [None])
        return found, found

    with pytest.raises(Exception, match=r"^the vocabulary has no row$"):
        labels_of(lambda: TextLines(f"{tmp_path}/*", parse))


def test_a_function_that_cannot_be_repeated_in_python_gives_its_fault_without_the_place(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.csv").write_text("1,2,x\nx,2,x\n")

    def data() -> TextLines:
        scale = tf.constant(1) + 0  # a tensor of the graph

        def parse(lines: tf.Tensor) -> Any:
            features, label = parse_csv(lines)
            return features, label * scale

        return TextLines(f"{tmp_path}/*", parse)

    with pytest.raises(Exception, match=r"^an example cannot be parsed: column 1 is 'x', which is not a valid int32:"):
        labels_of(data)


@pytest.mark.parametrize("number", ["1e", ""])
def test_a_fault_of_a_dataset_of_the_user_is_told_without_the_file(number: str) -> None:
    def data() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(["1", number]).map(
            lambda text: (tf.strings.to_number(text), tf.strings.to_number(text))
        )

    with pytest.raises(Exception, match=rf"^an example cannot be parsed: '{number}', which is not a number: correct"):
        labels_of(data)


@pytest.mark.parametrize("bad", [b"2\xe9,1", "\u4e24,1".encode("gb18030"), b"\xff\xfe1\0,1"])
def test_a_malformed_number_beside_bytes_that_are_not_utf8_is_named(tmp_path: pathlib.Path, bad: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(b"1.5,1\n" * 5 + bad + b"\n")

    def parse(lines: Any) -> Any:
        first, second = tf.io.decode_csv(lines, [[0.0], [0.0]])
        return first, second

    data = TextLines(f"{tmp_path}/*.csv", parse)
    with pytest.raises(tf.errors.OpError) as caught:
        list(data.chunks(DataShard(0, 1), None))
    told = str(data_error(caught.value))
    assert "a.csv line 6: " in told and "is not a valid float" in told and "convert the file" in told
