"""A TFRecord file that ends too soon or is damaged is found, although TensorFlow's reader takes it for complete."""

from __future__ import annotations

import gzip
import pathlib
import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.data import record_check
from ps_train.data.record_check import check_all_read

RECORDS = [b"first", b"second one", b"3"]
SIZES = [16 + len(record) for record in RECORDS]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("records") / "a"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in RECORDS:
            writer.write(record)
    return path.read_bytes()


def check(
    path: pathlib.Path, content: bytes, count: int, compression: str = "", take: int = -1, offset: int = 0
) -> None:
    """`count` records from the beginning were read."""
    path.write_bytes(content)
    check_all_read(str(path), compression, offset, 0, take, np.array([count, sum(SIZES[:count])]))


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_a_whole_file_is_known_by_its_size_alone(
    tmp_path: pathlib.Path, content: bytes, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_check, "_opened", lambda *arguments: pytest.fail("it is read once more"))
    check(tmp_path / "a", PACK[compression](content), 3, compression)


PACK: dict[str, Any] = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


@pytest.mark.parametrize("compression", PACK)
def test_a_file_that_was_read_to_its_end_is_right(tmp_path: pathlib.Path, content: bytes, compression: str) -> None:
    check(tmp_path / "a", PACK[compression](content), 3, compression)


@pytest.mark.parametrize(
    ("cut", "read", "fault"),
    [
        (sum(SIZES) - 1, 2, f"cut off within record 2, at byte {sum(SIZES[:2])}: replace it"),
        (SIZES[0] + 3, 1, f"cut off within the length of record 1, at byte {SIZES[0]}: replace it"),
    ],
)
@pytest.mark.parametrize("compression", PACK)
def test_a_file_that_is_cut_off_is_named_with_the_place(
    tmp_path: pathlib.Path, content: bytes, compression: str, cut: int, read: int, fault: str
) -> None:
    with pytest.raises(Exception, match=f"{tmp_path}/a is {fault}"):
        check(tmp_path / "a", PACK[compression](content[:cut]), read, compression)


def test_a_gzip_file_that_is_cut_off_cannot_be_read(tmp_path: pathlib.Path, content: bytes) -> None:
    with pytest.raises(Exception, match="a cannot be read as GZIP: "):
        check(tmp_path / "a", gzip.compress(content)[:-9], 1, "GZIP")


@pytest.mark.parametrize(
    ("byte", "fault"),
    [(0, "damaged, or compressed in another way: the length of record 1, "), (13, "damaged: record 1, ")],
)
def test_a_changed_byte_is_found(tmp_path: pathlib.Path, content: bytes, byte: int, fault: str) -> None:
    wrong = bytearray(content)
    wrong[SIZES[0] + byte] ^= 1
    with pytest.raises(Exception, match=fault):
        check(tmp_path / "a", bytes(wrong), 1)


def test_a_part_is_judged_by_its_number_of_records(tmp_path: pathlib.Path, content: bytes) -> None:
    check(tmp_path / "a", content[: SIZES[0]], 1, take=1)  # what follows is another part's
    with pytest.raises(Exception, match=f"cut off within the record at byte {SIZES[0]}"):
        check(tmp_path / "a", content[: SIZES[0] + 14], 1, take=2, offset=SIZES[0])


def test_a_reader_that_stopped_at_a_good_record_is_an_error_of_its_own(tmp_path: pathlib.Path, content: bytes) -> None:
    with pytest.raises(OSError, match="could not be read to its end"):
        check(tmp_path / "a", content, 2)


def test_a_copy_is_looked_at_and_the_file_is_named(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "copy").write_bytes(content[:-1])
    with pytest.raises(Exception, match="s3://b/a is cut off"):
        check_all_read("s3://b/a", "", 0, 0, -1, np.array([2, sum(SIZES[:2])]), copy=str(tmp_path / "copy"))
