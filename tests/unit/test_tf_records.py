"""Each record of TFRecord files is read once, by one replica."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import DataError, Job, TFRecords
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import DataSource, evaluation_batches, training_batches
from ps_train.data.shard_batches import ShardedBatches
from ps_train.data.shard_layout import Assignment, progress_value
from ps_train.data.shard_readers import described_shards, reader_of
from ps_train.data.stream import data_error


def record(number: int) -> bytes:
    features = tf.train.Features()
    features.feature["number"].int64_list.value.append(number)
    features.feature["ids"].int64_list.value.extend([number] * (number % 3))
    return tf.train.Example(features=features).SerializeToString()


def write(path: pathlib.Path | str, numbers: Sequence[int], compression: str = "") -> None:
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for number in numbers:
            writer.write(record(number))


def parse(records: tf.Tensor):
    spec = {"ids": tf.io.VarLenFeature(tf.int64), "number": tf.io.FixedLenFeature([], tf.int64)}
    features = tf.io.parse_example(records, spec)
    return features, features.pop("number")


@pytest.fixture
def files(tmp_path: pathlib.Path) -> str:
    """Five files with 0 to 699, one of them without a record and one compressed; returns their pattern."""
    for name, first, last in (("a", 0, 300), ("b", 300, 301), ("c", 0, 0), ("d", 301, 420)):
        write(tmp_path / f"train-{name}", range(first, last))
    write(tmp_path / "train-e.gz", range(420, 700), "GZIP")
    (tmp_path / "train-folder").mkdir()
    (tmp_path / "other").write_text("no records")
    return f"{tmp_path}/train-*"


def read(make, most: int = 1000) -> list[int]:
    """The labels of batches until their end; the lists of each example are checked."""
    seen: list[int] = []
    with tf.Graph().as_default(), v1.Session() as session:
        batches = make()
        session.run(batches.initializer, batches.feeds(3))
        while len(seen) < most:
            try:
                features, labels = session.run((batches.features, batches.labels))
            except tf.errors.OutOfRangeError:
                break
            rows = features["ids"].indices[:, 0]
            assert labels[rows].tolist() == features["ids"].values.tolist()
            assert len(rows) == sum(label % 3 for label in labels)
            seen += labels.tolist()
    return seen


@pytest.mark.parametrize("shuffle_buffer", [0, 50])
@pytest.mark.parametrize("replicas", [1, 2, 5, 7])
def test_the_shares_of_all_replicas_are_the_records(files: str, replicas: int, shuffle_buffer: int) -> None:
    shares = [
        read(lambda i=i: training_batches(TFRecords(files, parse), DataShard(i, replicas), 32, 1, shuffle_buffer))
        for i in range(replicas)
    ]
    assert sorted(number for share in shares for number in share) == list(range(700))
    if shuffle_buffer == 0:
        assert shares == [sorted(share) for share in shares]


def test_every_epoch_has_another_order(files: str) -> None:
    seen = read(lambda: training_batches(TFRecords(files, parse), DataShard(0, 1), 28, 2, 100), 1400)
    first, second = seen[:700], seen[700:]
    assert sorted(first) == sorted(second) == list(range(700)) and first != second and first != sorted(first)
    assert seen == read(lambda: training_batches(TFRecords(files, parse), DataShard(0, 1), 28, 2, 100), 1400)


def test_evaluation_reads_them_in_order(files: str) -> None:
    assert read(lambda: evaluation_batches(TFRecords([files], parse), 64)) == list(range(700))


def test_a_file_is_a_shard_under_dynamic_sharding(files: str) -> None:
    job = Job(sharding="dynamic", batch_size=32, shuffle_buffer=100)
    seen: list[int] = []
    with tf.Graph().as_default(), v1.Session() as session:
        sharded = ShardedBatches(reader_of(TFRecords(files, parse), job), 32)
        assert sharded.count == 5
        for shard in range(5):
            sharded.assign(Assignment(shard, progress_value(0), progress_value(1)))
        batches = sharded.batches
        session.run(batches.initializer)
        fetches = (batches.features, batches.labels, batches.examples, batches.progress)
        while (found := session.run(fetches))[3][0] >= 0:
            features, labels, examples, _ = found
            if examples:
                assert labels[features["ids"].indices[:, 0]].tolist() == features["ids"].values.tolist()
                seen += labels.tolist()
    assert sorted(seen) == list(range(700)) and seen != sorted(seen)


def test_the_name_of_the_shards_changes_with_the_files(files: str, tmp_path: pathlib.Path) -> None:
    name = TFRecords(files, parse).pieces().name
    assert name == TFRecords([f"{tmp_path}/train-[a-e]*"], parse).pieces().name and name.isidentifier()
    write(tmp_path / "train-c", [700])
    assert TFRecords(files, parse).pieces().name != name


def test_tasks_with_other_files_have_another_description(files: str, tmp_path: pathlib.Path) -> None:
    source = DataSource(lambda: TFRecords(files, parse))
    assert described_shards(Job(), source) == {}, "not loaded"
    with tf.Graph().as_default():
        source.get()
    described = described_shards(Job(), source)
    assert described["data"].startswith("5 files, ")
    assert described_shards(Job(sharding="dynamic"), source).keys() == {"data", "shards"}
    (tmp_path / "elsewhere").mkdir()
    for path in tmp_path.glob("train-?*"):
        if path.is_file():
            (tmp_path / "elsewhere" / path.name).write_bytes(path.read_bytes())
    assert TFRecords(f"{tmp_path}/elsewhere/*", parse).description == described["data"]
    (tmp_path / "elsewhere" / "train-a").unlink()
    assert TFRecords(f"{tmp_path}/elsewhere/*", parse).description != described["data"]


def test_files_may_be_on_any_file_system_of_tensorflow() -> None:
    tf.io.gfile.makedirs("ram://records")
    write("ram://records/train-0", range(10))
    assert read(lambda: evaluation_batches(TFRecords("ram://records/train-*", parse), 4)) == list(range(10))


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_the_compression_may_be_named(tmp_path: pathlib.Path, compression: str) -> None:
    write(tmp_path / "packed", range(10), compression)
    assert read(lambda: evaluation_batches(TFRecords(f"{tmp_path}/packed", parse, compression), 4)) == list(range(10))


@pytest.mark.parametrize(
    ("patterns", "compression", "words"),
    [
        ("/no/such/train-*", None, r"no file has a name like /no/such/train-\*: check --data_dir"),
        (["/no/a", "/no/b"], None, "no file has a name like /no/a, /no/b: check"),
        ([], None, r"no file has a name like \(nothing\)"),
        ("/etc", None, "no file has a name like /etc"),
        ("/etc/hosts", "zip", "compression='zip' is not known: use GZIP, ZLIB"),
    ],
)
def test_what_cannot_be_read_is_refused(patterns, compression: str | None, words: str) -> None:
    with pytest.raises(DataError, match=words):
        TFRecords(patterns, parse, compression)


@pytest.mark.parametrize("damage", ["cut", "changed", "packed", "not packed"])
def test_a_damaged_file_is_a_fault_of_the_data(tmp_path: pathlib.Path, damage: str) -> None:
    path = tmp_path / ("train.gz" if damage == "not packed" else "train")
    write(path, range(100), "GZIP" if damage == "packed" else "")
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[:-3])
    elif damage == "changed":
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    with pytest.raises(tf.errors.OpError) as caught:
        read(lambda: training_batches(TFRecords(str(path), parse), DataShard(0, 1), 10, 1, 0))
    assert str(data_error(caught.value)).startswith("a TFRecord file is damaged, or compressed in another way (")
