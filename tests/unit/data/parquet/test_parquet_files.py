"""Each row of Parquet files is read once, by one replica; files that cannot be read are named."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import ConfigError, DataError, Job, Parquet
from ps_train.data.data_shard import DataShard
from ps_train.data.parquet import parquet_files, reading
from ps_train.data.pipeline import evaluation_batches, training_batches
from ps_train.data.stream import data_error
from tests.support.data.batches import labels_of, labels_of_shards
from tests.support.data.rows import table, write_rows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def files(tmp_path: pathlib.Path) -> str:
    """Four files with 0 to 699 in seven row groups, one of them without a row; returns their pattern."""
    for name, first, stop, group in (
        ("a", 0, 300, 128),
        ("b", 300, 300, 100),
        ("c", 300, 301, 9),
        ("d", 301, 700, 150),
    ):
        write_rows(tmp_path / f"train-{name}.parquet", first, stop, group)
    (tmp_path / "train-note").mkdir()
    return f"{tmp_path}/train-*"


def read(make: Any, most: int = 1000) -> list[int]:
    """The labels of batches until their end; the lists and texts of each example are checked."""
    return labels_of(make, check, most)


def check(features: Any, labels: Any) -> None:
    assert features["ids"].to_list() == [[label] * (label % 3) for label in labels.tolist()]
    assert [int(text) for text in features["text"]] == labels.tolist()


@pytest.mark.parametrize("shuffle_buffer", [0, 50])
@pytest.mark.parametrize("replicas", [1, 2, 7, 900])
@pytest.mark.usual(2)
def test_the_shares_of_all_replicas_are_the_rows(files: str, replicas: int, shuffle_buffer: int) -> None:
    def share(index: int) -> list[int]:
        data = Parquet(files, label="number")
        return read(lambda: training_batches(data, DataShard(index, replicas), 32, 1, shuffle_buffer))

    if replicas > 700:  # more of them than rows
        assert [share(index) for index in (0, 1, 2)] == [[], [0], [1]]
        return
    shares = [share(index) for index in range(replicas)]
    assert sorted(number for numbers in shares for number in numbers) == list(range(700))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    if shuffle_buffer == 0:
        assert shares == [sorted(numbers) for numbers in shares]


def test_every_epoch_has_another_order(files: str) -> None:
    def twice() -> list[int]:
        return read(lambda: training_batches(Parquet(files, label="number"), DataShard(0, 1), 28, 2, 100), 1400)

    seen = twice()
    first, second = seen[:700], seen[700:]
    assert sorted(first) == sorted(second) == list(range(700)) and first != second and first != sorted(first)
    assert seen == twice()


def test_evaluation_reads_them_in_order(files: str) -> None:
    assert read(lambda: evaluation_batches(Parquet([files], label="number"), 64)) == list(range(700))


@pytest.mark.parametrize("piece_bytes, shards", [(1 << 30, 7), (1000, 20)])
def test_a_row_group_or_a_part_of_it_is_a_shard_under_dynamic_sharding(
    files: str, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, shards: int
) -> None:
    monkeypatch.setattr(parquet_files, "_PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(reading, "CHUNK_ROWS", 50)  # a shard is several reads
    job = Job(sharding="dynamic", batch_size=32, shuffle_buffer=100)
    count, seen = labels_of_shards(lambda: Parquet(files, label="number"), check, job)
    assert count >= shards if shards > 7 else count == shards
    assert sorted(seen) == list(range(700)) and seen != sorted(seen)


def test_the_name_of_the_shards_changes_with_the_files(files: str, tmp_path: pathlib.Path) -> None:
    def name() -> str:
        return Parquet(files, label="number").pieces().name

    before = name()
    assert before == name() and before.isidentifier()
    write_rows(tmp_path / "train-c.parquet", 300, 302)
    assert name() != before


def first_batch(data: Parquet) -> Any:
    """The first 100 examples."""
    with tf.Graph().as_default(), v1.Session() as session:
        batches = evaluation_batches(data, 100)
        session.run(batches.initializer)
        return session.run((batches.features, batches.labels))


def test_only_the_columns_that_are_asked_for_are_read(files: str) -> None:
    features, labels = first_batch(Parquet(files, columns=["text"], label="number"))
    assert features.keys() == {"text"} and labels.tolist() == list(range(100))


def test_several_labels_make_a_dict(files: str) -> None:
    features, labels = first_batch(Parquet(files, columns=["ids"], label=["number", "text"]))
    assert features.keys() == {"ids"} and labels.keys() == {"number", "text"}


def test_parse_makes_features_and_labels_of_all_columns(files: str) -> None:
    def parse(columns: dict[str, Any]) -> Any:
        return columns["ids"].row_lengths(), tf.cast(columns["number"] % 3, tf.float32)

    features, labels = first_batch(Parquet(files, parse=parse))
    assert features.tolist() == labels.tolist()


def test_directories_give_the_columns_of_their_names(tmp_path: pathlib.Path) -> None:
    for day in (1, 2):
        for hour in ("early", "late at night"):
            write_rows(
                tmp_path / f"day={day}" / f"hour={hour.replace(' ', '%20')}" / "part-0.parquet", day * 10, day * 10 + 2
            )
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "day=1" / ".part-0.parquet.crc").write_text("no rows")
    features, labels = first_batch(Parquet(str(tmp_path), columns=["day", "hour"], label="number"))
    assert features["day"].tolist() == [1] * 4 + [2] * 4 and labels.tolist() == [10, 11, 10, 11, 20, 21, 20, 21]
    assert (
        features["hour"].tolist() == [b"early"] * 2 + [b"late at night"] * 2 + [b"early"] * 2 + [b"late at night"] * 2
    )
    features, _ = first_batch(Parquet(f"{tmp_path}/day=2", label="day"))
    assert features.keys() == {"ids", "number", "text", "hour"}


def test_columns_of_directories_alone_have_as_many_rows(tmp_path: pathlib.Path) -> None:
    write_rows(tmp_path / "day=3" / "a.parquet", 0, 5)
    features, labels = first_batch(Parquet(str(tmp_path), columns=["day"], label="day"))
    assert labels.tolist() == [3] * 5 and features == {}


def test_fields_of_structs_are_columns(tmp_path: pathlib.Path) -> None:
    users = [{"id": 1, "home": {"city": "a"}}, {"id": 2, "home": None}, None]
    made = pa.table({"user": users, "user.id.2": [7, 8, 9], "click": [0, 1, 0]})
    pq.write_table(made, str(tmp_path / "a"))
    data = Parquet(f"{tmp_path}/a", label="click", defaults={"user.id": 0, "user.home.city": "?"})
    features, _ = first_batch(data)
    assert {name: value.tolist() for name, value in features.items()} == {
        "user.id": [1, 2, 0],
        "user.home.city": [b"a", b"?", b"?"],
        "user.id.2": [7, 8, 9],
    }


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "none"])
def test_every_compression_is_read(tmp_path: pathlib.Path, compression: str) -> None:
    pq.write_table(table(range(10)), str(tmp_path / "a"), compression=compression)
    assert read(lambda: evaluation_batches(Parquet(f"{tmp_path}/a", label="number"), 4)) == list(range(10))


def test_old_timestamps_of_twelve_bytes_are_read(tmp_path: pathlib.Path) -> None:
    moments = pa.array([0, 1_500_000], pa.timestamp("us"))
    pq.write_table(pa.table({"t": moments, "y": [0, 1]}), str(tmp_path / "a"), use_deprecated_int96_timestamps=True)
    assert first_batch(Parquet(f"{tmp_path}/a", label="y"))[0]["t"].tolist() == [0, 1_500_000]


def test_damage_within_a_file_is_told_with_its_name(tmp_path: pathlib.Path) -> None:
    write_rows(tmp_path / "a", 0, 5000, 5000)
    content = bytearray((tmp_path / "a").read_bytes())
    content[100:600] = bytes(np.random.default_rng(0).integers(0, 256, 500, np.uint8))
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(tf.errors.OpError) as error:
        read(lambda: evaluation_batches(Parquet(f"{tmp_path}/a", label="number"), 4))
    found = data_error(error.value)
    assert found is not None and str(found).startswith(f"{tmp_path}/a cannot be read: "), error.value


def test_a_changed_value_is_told_where_pages_have_checksums(tmp_path: pathlib.Path) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 60, 5000)
    pq.write_table(pa.table({"x": values}), str(tmp_path / "a"), use_dictionary=False, write_page_checksum=True)
    content = bytearray((tmp_path / "a").read_bytes())
    content[20_000] ^= 1
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(tf.errors.OpError) as error:
        read(lambda: evaluation_batches(Parquet(f"{tmp_path}/a", label="x"), 4))
    assert str(data_error(error.value)).startswith(f"{tmp_path}/a cannot be read: could not verify page integrity")


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_missing_value_is_told_with_its_row(tmp_path: pathlib.Path, dynamic: bool) -> None:
    ages = [None if row == 234 else row for row in range(300)]
    pq.write_table(pa.table({"age": ages, "y": [0] * 300}), str(tmp_path / "a"), row_group_size=100)
    data = Parquet(f"{tmp_path}/a", label="y")
    data.set_max_bad_lines(0)
    with tf.Graph().as_default(), v1.Session() as session, pytest.raises(tf.errors.OpError) as error:
        if dynamic:
            session.run(data.pieces().read(tf.constant(2, tf.int64))[1])
        else:
            batches = evaluation_batches(data, 300)
            session.run(batches.initializer)
            session.run(batches.labels)
    found = data_error(error.value)
    words = "no value in column age, and Parquet(..., defaults={'age': ...}) gives none. That is malformed row number 1"
    assert str(found).startswith(
        f"{tmp_path}/a row 234 (row group 2, row 34 in it), counted from 0: {words}, and max_bad_lines=0"
    )


def test_rows_with_missing_values_are_left_out_and_named(tmp_path, caplog):
    ages = [None if row in (3, 234, 235) else row for row in range(300)]
    lists = [None if row in (7, 234) else [row] for row in range(300)]
    pq.write_table(
        pa.table({"age": ages, "ids": lists, "y": list(range(300))}), str(tmp_path / "a"), row_group_size=100
    )
    for _ in range(2):  # counted once over all epochs
        data = Parquet(f"{tmp_path}/a", label="y")
        with tf.Graph().as_default(), v1.Session() as session:
            shards = [session.run(data.pieces().read(tf.constant(n, tf.int64))) for n in range(3)]
            batches = evaluation_batches(data, 300)
            session.run(batches.initializer)
            whole = session.run((batches.features, batches.labels))
    kept = [row for row in range(300) if row not in (3, 7, 234, 235)]
    assert whole[1].tolist() == kept == [int(y) for _, labels in shards for y in labels]
    assert whole[0]["age"].tolist() == kept == whole[0]["ids"].values.tolist()
    assert (
        caplog.text.count("row 234 (row group 2, row 34 in it), counted from 0: no value in column age") == 2
    )  # once by each reader
    assert caplog.text.count("row 7 (row group 0, row 7 in it), counted from 0: no value in column ids") == 2
    assert data.bad_records.count == 4


@pytest.mark.parametrize("most", [2, 1])
def test_rows_on_which_parse_fails_are_left_out_and_named(tmp_path, caplog, most):
    prices = ["two" if row == 234 else None if row == 5 else str(row) for row in range(300)]
    columns = {"price": prices, "ids": [[row] * (row % 3) for row in range(300)], "y": list(range(300))}
    for name, first in (("a", 0), ("b", 150)):
        pq.write_table(pa.table(columns).slice(first, 150), str(tmp_path / name), row_group_size=100)

    def parse(found: dict[str, Any]) -> Any:
        return {"price": tf.strings.to_number(found["price"]), "ids": found["ids"] + 1}, found["y"]

    data = Parquet(f"{tmp_path}/*", parse=parse)
    data.set_max_bad_lines(most)
    place = f"{tmp_path}/b row 84 (row group 0, row 84 in it), counted from 0: 'two', which is not a number"
    with tf.Graph().as_default(), v1.Session() as session:
        batches = evaluation_batches(data, 1000)
        session.run(batches.initializer)
        if most == 1:
            with pytest.raises(tf.errors.OpError) as error:
                session.run(batches.labels)
            assert str(data_error(error.value)).startswith(f"{place}. That is malformed row number 2, and max_bad")
            return
        features, labels = session.run((batches.features, batches.labels))
        shards = [session.run(data.pieces().read(tf.constant(n, tf.int64))) for n in range(4)]
    kept = [row for row in range(300) if row not in (5, 234)]
    assert labels.tolist() == kept == [int(y) for _, some in shards for y in some]
    assert features["price"].tolist() == kept
    assert features["ids"].to_list() == [[row + 1] * (row % 3) for row in kept]
    assert caplog.text.count(f"{place}; the row is skipped") == 1  # once over all reads


@pytest.mark.parametrize(
    "options, words",
    [
        ({"label": "clicks"}, "no column 'clicks' (did you mean click?): they have id, click"),
        ({"label": "click", "columns": ["id", "ip"]}, "no column 'ip'"),
        ({"label": "click", "defaults": {"other": 1}}, "no column 'other'"),
        ({"label": "click", "columns": "id"}, "columns='id' is a text: give a list of names"),
        ({}, "needs the name of the label, or a parse function"),
    ],
)
def test_wrong_names_are_refused(tmp_path: pathlib.Path, options: Any, words: str) -> None:
    pq.write_table(pa.table({"id": [1], "click": [1]}), str(tmp_path / "a"))
    with pytest.raises(DataError, match=r"^[^\n]*$") as error:
        Parquet(f"{tmp_path}/a", **options)
    assert words in str(error.value)


def test_files_without_a_row_are_no_examples(tmp_path: pathlib.Path) -> None:
    write_rows(tmp_path / "a", 0, 0)
    assert read(lambda: evaluation_batches(Parquet(f"{tmp_path}/a", label="number"), 4)) == []


def test_a_missing_pyarrow_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[parquet\]'"):
        Parquet(f"{tmp_path}/a", label="y")


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_texts_in_every_encoding_are_read_beside_dictionaries(tmp_path: pathlib.Path, encoding: str) -> None:
    texts = [None if number % 11 == 5 else f"{number % 7}\0" for number in range(100)]
    columns = {"s": texts, "t": ["a"] * 100, "l": [[one or ""] for one in texts], "y": [0.0] * 100}
    rows = pa.table(columns)
    options = {"use_dictionary": ["t"], "column_encoding": {"s": encoding, "l.list.element": encoding}}
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=30, **options)
    data = Parquet(str(tmp_path / "a.parquet"), label="y", defaults={"s": "none"})
    found: dict[str, list[Any]] = {"s": [], "t": [], "l": []}
    for features, _ in data.chunks(DataShard(0, 1), None):
        for name, some in found.items():
            value = features[name]
            some += value.to_list() if name == "l" else value.numpy().tolist()
    assert found["s"] == [(one or "none").encode() for one in texts] and found["t"] == [b"a"] * 100
    assert found["l"] == [[(one or "").encode()] for one in texts]
