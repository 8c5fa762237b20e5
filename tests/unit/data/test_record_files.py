"""Each record of TFRecord files, and each line of text files, is read once, by one replica."""

from __future__ import annotations

import functools
import gzip
import pathlib
from collections.abc import Sequence

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import ConfigError, DataError, Job, TextLines, TFRecords
from ps_train.data import record_files
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import DataSource, evaluation_batches, training_batches
from ps_train.data.shards.shard_readers import described_shards, reader_of
from ps_train.data.stream import data_error
from ps_train.data.text_lines import line_blocks
from tests.support.data.batches import labels_of, labels_of_shards


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
    return labels_of(make, check, most)


def check(features, labels) -> None:
    rows = features["ids"].indices[:, 0]
    assert labels[rows].tolist() == features["ids"].values.tolist()
    assert len(rows) == sum(label % 3 for label in labels)


@pytest.mark.parametrize(("replicas", "shuffle_buffer"), [(1, 0), (7, 50), (2, 50), (7, 0), (1, 50), (2, 0)])
@pytest.mark.usual(1)
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
    count, seen = labels_of_shards(lambda: TFRecords(files, parse), check, job)
    assert count == 5
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


@pytest.mark.parametrize("length", [559_903, 559_903 + (1 << 24)])
def test_a_first_record_whose_length_looks_like_gzip_is_a_record(tmp_path: pathlib.Path, length: int) -> None:
    path = tmp_path / "train"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(bytes(length))
        writer.write(b"last")
    assert path.read_bytes()[:3] == gzip.compress(b"")[:3], "so that it could be mistaken"
    lengths = TFRecords(str(path), lambda records: (tf.strings.length(records), tf.strings.length(records)))
    with tf.Graph().as_default(), v1.Session() as session:
        batches = evaluation_batches(lengths, 2)
        session.run(batches.initializer)
        assert session.run(batches.labels).tolist() == [length, 4]


def test_a_gzipped_file_needs_no_name(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "train", range(10), "GZIP")
    write(tmp_path / "train.gz", range(10, 20))
    assert read(lambda: evaluation_batches(TFRecords(f"{tmp_path}/train*", parse), 4)) == list(range(20))


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


DAMAGES = {
    "within a record": (lambda whole: whole[:-3], "", "is cut off within record 699, at byte"),
    "within a length": (
        lambda whole: whole[: _last(whole) + 5],
        "",
        "is cut off within the length of record 699, at byte",
    ),
    "within the first length": (lambda whole: whole[:7], "", "is cut off within the length of record 0, at byte 0"),
    "changed content": (lambda whole: _changed(whole, _last(whole) + 14), "", "is damaged: record 699, at byte"),
    "changed length": (lambda whole: _changed(whole, _last(whole) + 3), "", "the length of record 699, at byte"),
    "packed": (gzip.compress, "", "compressed in another way: the length of record 0, at byte 0, has a wrong checksum"),
    "not packed": (lambda whole: whole, "GZIP", "cannot be read as GZIP: Not a gzipped file"),
    "not zipped": (lambda whole: whole, "ZLIB", "cannot be read as ZLIB: "),
    "cut gzip": (
        lambda whole: gzip.compress(whole)[:-300],
        None,
        "cannot be read as GZIP: Compressed file ended before",
    ),
    "cut end of gzip": (lambda whole: gzip.compress(whole)[:-2], None, "cannot be read as GZIP: "),
    "a cut one in gzip": (lambda whole: gzip.compress(whole[:-3]), None, "is cut off within record 699, at byte"),
    "a cut length in gzip": (lambda whole: gzip.compress(whole[: _last(whole) + 1]), None, "the length of record 699"),
}


def _last(whole: bytes) -> int:
    """Where the last of the 700 records begins: they all end with 4 bytes, and begin with 12."""
    return len(whole) - len(record(699)) - 16


def _changed(whole: bytes, position: int) -> bytes:
    return whole[:position] + bytes([whole[position] ^ 255]) + whole[position + 1 :]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.usual(2)
def test_a_damaged_file_is_named_with_its_fault(tmp_path: pathlib.Path, damage: str) -> None:
    change, compression, words = DAMAGES[damage]
    write(tmp_path / "train-0", range(10))
    path = tmp_path / "train-1"
    write(path, range(700))
    path.write_bytes(change(path.read_bytes()))
    pattern = str(path) if compression else f"{tmp_path}/train-*"
    for make in (
        lambda: training_batches(TFRecords(pattern, parse, compression), DataShard(0, 1), 10, 1, 100),
        lambda: evaluation_batches(TFRecords(pattern, parse, compression), 10),
    ):
        with pytest.raises(tf.errors.OpError) as caught:
            read(make)
        message = str(data_error(caught.value))
        assert message.startswith(f"{path} ") and words in message
    with tf.Graph().as_default(), v1.Session() as session:
        pieces = TFRecords(pattern, parse, compression).pieces()
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(pieces.read(tf.constant(pieces.count - 1, tf.int64))[1])
        assert words in str(data_error(caught.value))


def test_a_record_that_is_damaged_is_found_in_a_part_of_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "train"
    write(path, range(700))
    whole = path.read_bytes()
    path.write_bytes(_changed(whole, _last(whole) + 14))
    assert read(lambda: training_batches(TFRecords(str(path), parse), DataShard(0, 2), 10, 1, 0)) == list(range(350))
    with pytest.raises(tf.errors.OpError) as caught:
        read(lambda: training_batches(TFRecords(str(path), parse), DataShard(1, 2), 10, 1, 0))
    assert f"{path} is damaged: the record at byte {_last(whole)}, has" in str(data_error(caught.value))


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_joined_gzipped_files_are_whole(tmp_path: pathlib.Path, compression: str) -> None:
    write(tmp_path / "first", range(10), compression)
    write(tmp_path / "second", range(10, 700), compression)
    if compression == "GZIP":
        joined = (tmp_path / "first").read_bytes() + (tmp_path / "second").read_bytes()
        (tmp_path / "first").write_bytes(joined)
    files = TFRecords(
        [f"{tmp_path}/first", *([f"{tmp_path}/second"] if compression == "ZLIB" else [])], parse, compression
    )
    assert read(lambda: evaluation_batches(files, 64)) == list(range(700))


def parse_line(lines: tf.Tensor):
    number, ids = tf.io.decode_csv(lines, [[-1], [""]], field_delim="\t")
    return {"ids": tf.strings.to_number(tf.strings.split(ids), tf.int64).to_sparse()}, tf.cast(number, tf.int64)


def write_lines(path: pathlib.Path, numbers: Sequence[int], end: str = "\n") -> None:
    lines = ["number\tids", *(f"{number}\t{' '.join([str(number)] * (number % 3))}" for number in numbers)]
    lines.insert(len(lines) // 2 + 1, "")
    text = end.join([*lines, "", ""]).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.fixture(params=["plain", "gzipped", "both"])
def texts(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> str:
    """Four files with 0 to 699, a header and empty lines, one without a record; returns their pattern."""
    suffixes = {"plain": ["", ""], "gzipped": [".gz", ".gz"], "both": ["", ".gz"]}[request.param] * 2
    for number, (first, last) in enumerate([(0, 300), (300, 301), (301, 301), (301, 700)]):
        write_lines(tmp_path / f"train-{number}{suffixes[number]}", range(first, last), "\r\n" if number else "\n")
    return f"{tmp_path}/train-*"


@pytest.mark.parametrize("shuffle_buffer", [0, 50])
@pytest.mark.parametrize("replicas", [1, 5])
@pytest.mark.usual(2)
def test_the_shares_of_all_replicas_are_the_lines(texts: str, replicas: int, shuffle_buffer: int) -> None:
    def share(index: int) -> list[int]:
        data = lambda: TextLines(texts, parse_line, has_header=True)  # noqa: E731
        return read(lambda: training_batches(data(), DataShard(index, replicas), 32, 1, shuffle_buffer))

    assert sorted(number for index in range(replicas) for number in share(index)) == list(range(700))


def test_evaluation_reads_the_lines_in_order(tmp_path: pathlib.Path) -> None:
    write_lines(tmp_path / "test-0", range(90))
    write_lines(tmp_path / "test-1", range(90, 200))
    data = lambda: TextLines([f"{tmp_path}/test-*"], parse_line, has_header=True)  # noqa: E731
    assert read(lambda: evaluation_batches(data(), 64)) == list(range(200))


@pytest.mark.parametrize("texts", ["plain"], indirect=True)
def test_blocks_of_plain_files_are_shards(texts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_files, "line_blocks", functools.partial(line_blocks, block_bytes=500))
    stream = TextLines(texts, parse_line, has_header=True)
    assert stream.description.startswith("4 files, ")
    pieces = stream.pieces()
    assert pieces is not None and pieces.count > 10 and pieces.name.isidentifier()
    with tf.Graph().as_default(), v1.Session() as session:
        number = v1.placeholder(tf.int64, [])
        _, labels = stream.pieces().read(number)
        seen = [label for index in range(pieces.count) for label in session.run(labels, {number: index})]
    assert seen == list(range(700))


def test_without_a_header_the_first_line_counts(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train").write_text("1\t1\n2\t2 2\n3\t")
    assert read(lambda: evaluation_batches(TextLines(f"{tmp_path}/train", parse_line), 2)) == [1, 2, 3]


@pytest.mark.parametrize("texts", ["gzipped"], indirect=True)
def test_gzipped_text_cannot_be_cut_into_shards(texts: str) -> None:
    job = Job(sharding="dynamic")
    with pytest.raises(ConfigError, match="needs data with random access, but data\\(\\) returned TextLines"):
        reader_of(TextLines(texts, parse_line), job)


def test_text_may_be_on_any_file_system_of_tensorflow() -> None:
    tf.io.gfile.makedirs("ram://texts")
    for name, text in (("a", b"1\t1\n2\t2 2\n"), ("b", gzip.compress(b"3\t\n4\t4\n"))):
        with tf.io.gfile.GFile(f"ram://texts/{name}", "wb") as file:
            file.write(text)
    assert sorted(read(lambda: evaluation_batches(TextLines("ram://texts/*", parse_line), 3))) == [1, 2, 3, 4]


def test_text_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DataError, match="no file has a name like /no/such: check --data_dir"):
        TextLines("/no/such", parse_line)


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_an_empty_file_is_no_share_of_a_replica(tmp_path, compression):
    options = tf.io.TFRecordOptions(compression_type=compression)
    for name, count in (("part-0", 40), ("part-1", 0)):
        with tf.io.TFRecordWriter(str(tmp_path / name), options) as writer:
            for number in range(count):
                writer.write(b"%d" % number)
    data = TFRecords(str(tmp_path / "part-*"), lambda records: (records, records), compression or None)
    shares = [
        [text for records, _ in data.chunks(DataShard(index, 2), None) for text in records.numpy().tolist()]
        for index in range(2)
    ]
    assert [len(share) for share in shares] == [20, 20]
    assert sorted(int(text) for share in shares for text in share) == list(range(40))


def test_files_whose_columns_stand_in_another_order_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("")
    (tmp_path / "c.csv").write_bytes(gzip.compress("\ufeffx,y\r\n3,4\r\n".encode()))

    def parse(lines):
        return lines, lines

    TextLines(f"{tmp_path}/*.csv", parse, has_header=True)
    (tmp_path / "d.csv").write_text("y,x\n1,2\n")
    with pytest.raises(DataError, match=r"d.csv has the columns 'y,x', and .*c.csv has 'x,y': give all files the same"):
        TextLines(f"{tmp_path}/*.csv", parse, has_header=True)
