"""Gzipped files are known by their content."""

from __future__ import annotations

import gzip
import pathlib
import zlib

import pytest

from ps_train.base.errors import DataError
from ps_train.data.gzip_files import has_content, is_gzipped, unpacked


def file_of(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_the_first_bytes_decide_not_the_name(tmp_path: pathlib.Path) -> None:
    packed = file_of(tmp_path / "a.csv", gzip.compress(b"1,2\n3,4\n", mtime=0))
    plain = file_of(tmp_path / "a.csv.gz", b"1,2\n")
    assert is_gzipped(packed) and not is_gzipped(plain)
    with unpacked(packed) as file:
        assert file.readline() == b"1,2\n" and file.read() == b"3,4\n"
    with unpacked(plain) as file:
        assert file.read() == b"1,2\n"


@pytest.mark.parametrize(
    ("content", "is_zlib", "found"),
    [
        (b"", False, False),
        (b"x", False, True),
        (gzip.compress(b"", mtime=0), False, False),
        (gzip.compress(b"x", mtime=0), False, True),
        (gzip.compress(b"x", mtime=0)[:5], False, True),  # damaged: its reader tells
        (b"", True, False),
        (zlib.compress(b""), True, False),
        (zlib.compress(b"x"), True, True),
        (b"no zlib", True, True),
    ],
)
def test_content_is_that_of_the_unpacked_file(
    tmp_path: pathlib.Path, content: bytes, is_zlib: bool, found: bool
) -> None:
    assert has_content(file_of(tmp_path / "a", content), is_zlib) is found


def test_a_file_that_is_cut_off_or_missing_is_an_error_that_names_it(tmp_path: pathlib.Path) -> None:
    path = file_of(tmp_path / "a", gzip.compress(bytes(range(256)) * 9)[:-9])
    with pytest.raises(DataError, match=f"{path} cannot be read"), unpacked(path) as file:
        file.read()
    with pytest.raises(DataError, match="none"):
        is_gzipped(tmp_path / "none")
