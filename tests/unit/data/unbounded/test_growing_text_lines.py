from __future__ import annotations

import gzip

import pytest

from ps_train import DataError
from ps_train.data.unbounded.growing_text_lines import GrowingTextLines
from tests.support.data.unbounded import parse


def lines_of(directory, partitions=1, **given):
    source = GrowingTextLines(f"{directory}/*.csv", parse, partitions=partitions, **given)
    source.partitions()
    return source


def read_all(source, partition=0, offset=0, n=3):
    """All rows from an offset on, and the offset after them."""
    values = []
    while rows := source.read(partition, offset, n):
        assert len(rows) <= n and rows[0].offset >= offset
        values += [row.value for row in rows if row.value is not None]
        offset = rows[-1].after
    return values, offset


def test_lines_of_files_that_come_are_read_after_those_before(tmp_path):
    source = lines_of(tmp_path)
    assert read_all(source) == ([], 0)
    (tmp_path / "a.csv").write_bytes(b"1\r\n2\n\n3")
    source.partitions()
    values, offset = read_all(source)
    assert values == [b"1", b"2", b"3"]
    (tmp_path / "b.csv").write_bytes(gzip.compress(b"\xef\xbb\xbf4\n5\n"))
    (tmp_path / "c.csv").write_bytes(b"")
    (tmp_path / "d.csv").write_bytes(b"6\n")
    source.partitions()
    assert read_all(source, 0, offset)[0] == [b"4", b"5", b"6"]
    again = lines_of(tmp_path)
    assert read_all(again)[0] == [b"%d" % number for number in range(1, 7)]
    for number, row in enumerate(row for row in again.read(0, 0, 100) if row.value is not None):
        assert read_all(again, 0, row.offset)[0] == [b"%d" % one for one in range(number + 1, 7)]


def test_files_are_divided_among_partitions_and_headers_are_left_out(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text(f"header\n{number}\n")
    source = lines_of(tmp_path, 2, has_header=True)
    assert source.partitions() == 2
    assert read_all(source, 0)[0] == [b"0", b"2", b"4"]
    assert read_all(source, 1)[0] == [b"1", b"3"]
    rows = source.read(0, 0, 100)
    assert source.lag(0, 0) == 27 and source.lag(0, rows[0].after) == 20 and source.lag(0, rows[-1].after) == 0
    assert source.place(1, source.read(1, 0, 10)[-1].offset) == f"{tmp_path}/3.csv byte 7"


@pytest.mark.parametrize("name, how", [("5.csv", "has come between"), ("3.csv", "is gone")])
def test_files_that_change_the_order_are_refused_while_it_runs_and_after_a_resume(tmp_path, name, how):
    for number in (0, 3, 6):
        (tmp_path / f"{number}.csv").write_text(f"{number}\n")
    source = lines_of(tmp_path)
    offset = read_all(source)[1]
    (tmp_path / name).unlink() if how == "is gone" else (tmp_path / name).write_text("5\n")
    with pytest.raises(DataError, match=rf"{name} {how}.*names that sort after all others"):
        source.partitions()
    (tmp_path / "9.csv").write_text("9\n")
    with pytest.raises(DataError, match="is not the file that was read before at its place"):
        read_all(lines_of(tmp_path), 0, offset)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(gzip.compress(b"1\n" * 1000)[:-12])
    with pytest.raises(DataError, match=r"a\.csv cannot be read"):
        read_all(lines_of(tmp_path))


@pytest.mark.parametrize(
    "files, given, text",
    [("s3://bucket/*.csv", {}, "not on a local disk"), ("/x/*.csv", {"partitions": 0}, "partitions=0 is not valid")],
)
def test_wrong_arguments_are_refused(files, given, text):
    with pytest.raises(DataError, match=text):
        GrowingTextLines(files, parse, **given)
