"""An index finds each record of a TFRecord file, is kept beside the file, and is made again after a change."""

from __future__ import annotations

import contextlib
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ps_train.base.errors import DataError
from ps_train.data.file_names import INDEX_SUFFIX
from ps_train.data.record_index import index_of, parse, scan
from tests.support.machine.processes import eventually, make_processes


def content_of(lengths: list[int]) -> bytes:
    """Records of the format, with checksums of zero, which an index does not read."""
    return b"".join(struct.pack("<QI", length, 0) + bytes(length + 4) for length in lengths)


def starts_of(lengths: list[int]) -> list[int]:
    return [sum(length + 16 for length in lengths[:number]) for number in range(len(lengths))]


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 500))
def test_each_record_is_found_from_a_known_one(lengths: list[int], every_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "x")
        path.write_bytes(content_of(lengths))
        index = scan(str(path), every_bytes)
    starts = starts_of(lengths)
    assert index.count == len(lengths)
    for number, start in enumerate(starts):
        place = index.place(number)
        assert starts[starts.index(place.offset) + place.skip] == start
        assert start - place.offset < every_bytes
    kept = parse(index.content(5, 6), size=5 if not lengths else 1 << 40, changed=6)
    assert kept is None or lengths == [], "of a file of another size"
    size = len(content_of(lengths))
    kept = parse(index.content(size, 6), size, 6)
    assert kept is not None and kept.count == len(lengths)
    assert [kept.place(number) for number in range(len(lengths))] == [index.place(n) for n in range(len(lengths))]


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "train"
    path.write_bytes(content_of([10, 20, 30]))
    return path


def kept_beside(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(f".{file.name}{INDEX_SUFFIX}")


def test_an_index_is_kept_and_read_again(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert index_of(str(file)).count == 3
    status = file.stat()
    kept = kept_beside(file)
    kept.write_bytes(scan(str(file)).content(status.st_size, status.st_mtime_ns).replace(b"\x03", b"\x04", 1))
    (tmp_path / "link").symlink_to(file)
    assert index_of(f"{tmp_path}/link").count == 3, "of this process's memory"
    program = tmp_path / "program.py"
    program.write_text(f"from ps_train.data.record_index import index_of; print(index_of({str(file)!r}).count)")
    with contextlib.closing(make_processes(tmp_path)) as made:
        run = next(made).script(program)
        assert run.wait() == 0 and run.lines == ["4"], "another process reads the kept index"


def test_a_changed_file_gets_a_new_index(file: pathlib.Path) -> None:
    index_of(str(file))
    file.write_bytes(content_of([10, 20, 30, 40]))
    assert index_of(str(file)).count == 4
    file.write_bytes(content_of([10, 20, 46, 24]))
    os.utime(file, ns=(1, 1))
    assert index_of(str(file)).place(3).skip == 3
    status = file.stat()
    assert parse(kept_beside(file).read_bytes(), status.st_size, status.st_mtime_ns) is not None


@pytest.mark.parametrize("kept", [b"", b"x" * 64, bytes(48)])
def test_a_damaged_index_is_made_again(file: pathlib.Path, kept: bytes) -> None:
    kept_beside(file).write_bytes(kept)
    assert index_of(str(file)).count == 3
    assert len(kept_beside(file).read_bytes()) == 48, "two lines of numbers and one known record"


def test_a_directory_that_cannot_be_written_leaves_the_index_in_memory(tmp_path: pathlib.Path) -> None:
    path = tmp_path / ("x" * 250)  # the index's name would be too long
    path.write_bytes(content_of([1, 2]))
    assert index_of(str(path)).count == 2
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("cut", [1, 4, 20, 40])
def test_a_cut_in_the_last_record_is_an_error(file: pathlib.Path, cut: int) -> None:
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(DataError, match=rf"{file} is damaged or cut off: record 2, at byte 62, does not fit"):
        index_of(str(file))
    assert not kept_beside(file).exists()


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match=r"none cannot be read: No such file"):
        index_of(f"{tmp_path}/none")


@pytest.mark.long
def test_processes_that_make_it_at_once_never_leave_a_part_of_it(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "train"
    file.write_bytes(content_of([50_000] * 2000))
    status = file.stat()
    program = f"from ps_train.data.record_index import index_of; print(index_of({str(file)!r}).count)"
    made = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)]

    def ended() -> bool:
        if kept_beside(file).exists():
            found = parse(kept_beside(file).read_bytes(), status.st_size, status.st_mtime_ns)
            assert found is not None and found.count == 2000
        return all(process.poll() is not None for process in made)

    eventually(ended, 60, "the end of the processes")
    assert [process.communicate()[0] for process in made] == [b"2000\n"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [kept_beside(file).name, "train"]
