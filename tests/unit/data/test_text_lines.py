"""Every line of plain and gzipped files is exactly one replica's, wherever the borders of the bytes fall."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from hypothesis import given
from hypothesis import strategies as st

from ps_train.base.errors import DataError
from ps_train.data.data_shard import DataShard
from ps_train.data.stream import data_error
from ps_train.data.text_lines import Blocks, gzip_shares, line_dataset, read_block, read_gzip
from tests.support.long import long


def lines_of(text):
    """What a text file's lines are: the oracle.  A last line needs no end."""
    lines = text.split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    return [line.removesuffix(b"\r") for line in lines]


def text_of(lines, end=b"\n", last=b"\n"):
    return end.join(lines) + (last if lines else b"")


def shares(count):
    return [DataShard(index, count) for index in range(count)]


ALONE = DataShard(0, 1)


def read_all(files, share=ALONE, seed=None, block_bytes=64):
    """All (file, position, line) of a share; positions of plain files are bytes, of gzipped ones numbers of lines."""
    with tf.Graph().as_default():
        fed = None if seed is None else tf.constant(seed, tf.int64)
        dataset = line_dataset([Path(file) for file in files], share, fed, block_bytes)
        some = v1.data.make_one_shot_iterator(dataset).get_next()
        found = []
        with v1.Session() as session:
            while True:
                try:
                    file, first, step, lines = session.run(some)
                except tf.errors.OutOfRangeError:
                    return found
                position = first
                for line in lines.tolist():
                    found.append((int(file), int(position), line))
                    position += step or len(line) + 1


def only_lines(found):
    return [line for _, _, line in found]


texts = st.lists(st.sampled_from([b"\n", b"\n\n", b"\r\n", b"a", b"bc", b"def" * 5]), max_size=20).map(b"".join)


@given(st.lists(texts, min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 40))
def test_blocks_of_all_shares_hold_every_line_once_and_in_order(contents, count, block_bytes):
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory, str(number)) for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        found = b""
        for share in shares(count):
            for block in Blocks([len(content) for content in contents], share, block_bytes):
                first, text = read_block(paths[block.file], block.start, block.stop)
                assert not text or block.start <= first < block.stop
                assert not text or text.endswith(b"\n")
                found += text
    assert lines_of(found) == [line for content in contents for line in lines_of(content)]


@given(texts, st.integers(1, 5), st.integers(1, 40))
def test_every_nth_line_of_a_gzipped_file_is_the_replicas(content, count, block_bytes):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "x.gz")
        path.write_bytes(gzip.compress(content))
        for index in range(count):
            found = []
            for first, text in read_gzip(path, index, count, block_bytes):
                for line in lines_of(text):
                    found.append((first, line))
                    first += count
            assert found == list(enumerate(lines_of(content)))[index::count]


@given(st.lists(st.integers(0, 1000), max_size=6), st.integers(1, 7), st.integers(1, 300))
def test_blocks_are_disjoint_complete_and_no_longer_than_asked(sizes, count, block_bytes):
    seen = [np.zeros(size, int) for size in sizes]
    bytes_of_share = []
    for share in shares(count):
        blocks = Blocks(sizes, share, block_bytes)
        for index in range(len(blocks)):
            block = blocks[index]
            assert 0 < block.stop - block.start <= block_bytes
            seen[block.file][block.start : block.stop] += 1
        bytes_of_share.append(sum(block.stop - block.start for block in blocks))
    assert all((part == 1).all() for part in seen)
    assert max(bytes_of_share) - min(bytes_of_share) <= 1


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9), st.integers(1, 9))
def test_gzipped_files_are_dealt_out_whole_if_there_are_enough(sizes, count):
    dealt = [gzip_shares(sizes, share) for share in shares(count)]
    parts = [(part.file, part.index, part.count) for share in dealt for part in share]
    if len(sizes) >= count:
        assert sorted(parts) == [(file, 0, 1) for file in range(len(sizes))]
        assert all(dealt)
    else:
        assert sorted(parts) == [(file, index, count) for file in range(len(sizes)) for index in range(count)]


@pytest.fixture
def store(tmp_path):
    """Writes a file, gzipped where its name says so; returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def numbered(prefix, count):
    return [f"{prefix}{number}".encode() * (1 + number % 7) for number in range(count)]


CONTENTS = {
    "long": numbered("a", 300),
    "one": [b"single"],
    "none": [],
    "short": numbered("b", 3),
}


@pytest.mark.parametrize("count", [long(1), 2, 5])
@pytest.mark.parametrize(
    "suffixes", [("", "", "", ""), long((".gz",) * 4), ("", ".gz", "", ".gz"), long((".gz", "", ".gz", ""))]
)
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.usual(2)
def test_the_shares_of_files_of_all_sizes_are_disjoint_and_complete(store, count, suffixes, seed):
    items = list(zip(CONTENTS.items(), suffixes, strict=True))
    files = [store(name + suffix, text_of(lines)) for (name, lines), suffix in items]
    found = [read_all(files, share, seed) for share in shares(count)]
    assert sorted(line for share in found for line in only_lines(share)) == sorted(
        line for lines in CONTENTS.values() for line in lines
    )


@pytest.mark.usual(1)
@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_a_file_with_fewer_lines_than_replicas_is_read_once(store, name):
    file = store(name, b"first\nsecond")
    found = [line for share in shares(5) for line in only_lines(read_all([file], share))]
    assert sorted(found) == [b"first", b"second"]


@pytest.mark.usual(4)
@pytest.mark.parametrize("name", ["x", "x.gz"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [long(True), False])
@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_ends_of_lines_are_taken_off(store, name, end, last, block_bytes):
    lines = [b"ab", b"", b"cdefgh", b"i"]
    file = store(name, text_of(lines, end, end if last else b""))
    assert only_lines(read_all([file], block_bytes=block_bytes)) == lines


def test_a_line_may_be_much_longer_than_a_block(store):
    lines = [b"x" * 1000, b"y", b"z" * 333]
    for name in ("x", "x.gz"):
        assert only_lines(read_all([store(name, text_of(lines))], block_bytes=10)) == lines


def test_positions_are_the_bytes_of_plain_files_and_the_numbers_of_gzipped_lines(store):
    lines = CONTENTS["long"]
    text = text_of(lines)
    for share in shares(3):
        for file, position, line in read_all([store("none", b""), store("x", text)], share):
            assert file == 1
            assert text[position:].startswith(line + b"\n")
        for _, position, line in read_all([store("x.gz", text)], share):
            assert lines[position] == line


def test_without_a_seed_lines_come_in_their_order(store):
    assert only_lines(read_all([store("x", text_of(CONTENTS["long"]))])) == CONTENTS["long"]


def test_with_a_seed_blocks_come_in_another_order_and_in_each_pass_anew(store):
    path = store("x", text_of(CONTENTS["long"]))
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = line_dataset([path], DataShard(0, 1), tf.constant(1, tf.int64), 64)
        count = len(Blocks([path.stat().st_size], DataShard(0, 1), 64))
        some = v1.data.make_one_shot_iterator(dataset.repeat(2).map(lambda some: some.first)).get_next()
        firsts = [int(session.run(some)) for _ in range(2 * count)]
    assert sorted(firsts[:count]) == sorted(firsts[count:])
    assert firsts[:count] != sorted(firsts[:count])
    assert firsts[:count] != firsts[count:]


def test_a_file_that_is_missing_is_refused_with_its_name(tmp_path):
    with tf.Graph().as_default(), pytest.raises(DataError, match=r"gone\.txt cannot be read: No such file"):
        line_dataset([tmp_path / "gone.txt"], DataShard(0, 1), None)


def test_a_file_that_vanishes_while_it_is_read_is_named(store):
    path = store("x", b"a\nb\n")
    with tf.Graph().as_default(), v1.Session() as session:
        some = v1.data.make_one_shot_iterator(line_dataset([path], DataShard(0, 1), None)).get_next()
        path.unlink()
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(some)
    assert f"{path} cannot be read" in str(data_error(caught.value))


def corrupted(content):
    changed = bytearray(content)
    changed[len(content) // 2] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize("spoil", [lambda c: c[:-6], lambda c: c[: len(c) // 2], corrupted])
def test_a_gzipped_file_that_is_cut_off_or_corrupted_is_named(store, spoil):
    path = store("x.gz", zlib.compress(bytes(range(256)) * 9) * 9)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        read_all([path], block_bytes=1 << 18)
    assert f"{path} cannot be read" in str(data_error(caught.value))


@pytest.mark.usual(1)
@pytest.mark.parametrize("replicas", [1, 3])
def test_gzip_is_known_by_its_bytes_and_a_byte_order_mark_is_left_out(tmp_path, replicas):
    lines = [str(number).encode() for number in range(100)]
    text = b"\xef\xbb\xbf" + b"\n".join(lines)
    for name, content in {"packed": gzip.compress(text), "plain.gz": text}.items():
        (tmp_path / name).write_bytes(content)
        shards = [DataShard(index, replicas) for index in range(replicas)]
        assert sorted(line for shard in shards for line in only_lines(read_all([tmp_path / name], shard))) == sorted(
            lines
        )


def test_an_empty_gzipped_file_is_no_share_of_a_replica(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\n3\n4\n"))
    (tmp_path / "b.gz").write_bytes(gzip.compress(b""))
    files = [tmp_path / "a.gz", tmp_path / "b.gz"]
    shares = [
        [line for some in line_dataset(files, DataShard(index, 2), None) for line in some.lines.numpy().tolist()]
        for index in range(2)
    ]
    assert shares == [[b"1", b"3"], [b"2", b"4"]]
