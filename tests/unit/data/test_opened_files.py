"""Data on a file system of fsspec are read as those on a local disk, and what cannot be read is named."""

from __future__ import annotations

import gzip
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

from ps_train import ConfigError, DataError, Job, Parquet, TextLines, TFRecords
from ps_train.base.remote_files import missing_package
from ps_train.data import opened_files
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.opened_files import local_copy
from ps_train.data.pipeline import training_batches
from tests.support.data.batches import labels_of, labels_of_shards
from tests.support.data.rows import write_rows

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def there() -> Iterator[str]:
    """An empty directory in fsspec's memory."""
    files = fsspec.filesystem("memory")
    files.makedirs("/there", exist_ok=True)
    yield "memory://there"
    files.rm("/there", recursive=True)


def write_records(path: pathlib.Path, first: int, stop: int, compression: str = "") -> None:
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for number in range(first, stop):
            writer.write(str(number).encode())


def numbers(records: tf.Tensor) -> tuple[Any, Any]:
    found = tf.strings.to_number(records, tf.int64)
    return {"number": found}, found


def records_of(directory: str) -> TFRecords:
    return TFRecords(f"{directory}/*", numbers)


def lines_of(directory: str) -> TextLines:
    return TextLines(f"{directory}/*", numbers)


def rows_of(directory: str) -> Parquet:
    return Parquet(directory, ["text"], label="number")


def write_all(kind: str, folder: pathlib.Path) -> None:
    """Writes 0 to 699 into three files."""
    for name, first, stop in (("a", 0, 300), ("b", 300, 301), ("c", 301, 700)):
        if kind.startswith("records"):
            write_records(folder / name, first, stop, "GZIP" if kind.endswith("gzipped") and name != "b" else "")
        elif kind == "rows":
            write_rows(folder / f"{name}.parquet", first, stop)
        else:
            text = "".join(f"{number}\n" for number in range(first, stop)).encode()
            (folder / name).write_bytes(gzip.compress(text) if kind.endswith("gzipped") else text)


KINDS: dict[str, Callable[[str], Any]] = {
    "records": records_of,
    "lines": lines_of,
    "rows": rows_of,
    "records, gzipped": records_of,
    "lines, gzipped": lines_of,
}


def numbers_of(data: Any, shard: DataShard = WHOLE, shuffle_buffer: int = 0) -> list[int]:
    return labels_of(lambda: training_batches(data, shard, 32, 1, shuffle_buffer), check, 1000)


def check(features: Any, labels: Any) -> None:
    (column,) = features.values()
    assert [int(value) for value in column] == labels.tolist()


@pytest.mark.long
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_shares_of_all_replicas_are_those_of_local_files(kind: str, there: str, tmp_path: pathlib.Path) -> None:
    if kind == "rows":
        pytest.importorskip("pyarrow")
    write_all(kind, tmp_path)
    fsspec.filesystem("memory").put(f"{tmp_path}/", "/there/", recursive=True)
    before = copies()
    for replicas, shuffle_buffer in ((1, 0), (4, 50)):
        shares = [numbers_of(KINDS[kind](there), DataShard(i, replicas), shuffle_buffer) for i in range(replicas)]
        assert sorted(number for share in shares for number in share) == list(range(700))
    if kind != "lines, gzipped":
        _, seen = labels_of_shards(lambda: KINDS[kind](there), check, Job(sharding="dynamic"))
        assert sorted(seen) == list(range(700))
    assert copies() == before, "a copy was left on the local disk"


def copies() -> list[str]:
    """The copies of files that are on the local disk."""
    return sorted(opened_files._copies)


def test_a_file_that_is_damaged_is_named_with_its_address(there: str) -> None:
    files = fsspec.filesystem("memory")
    files.pipe("/there/a", b"no record at all")
    with pytest.raises(tf.errors.OpError, match=r"memory://.*/a is (damaged|cut)"):
        numbers_of(records_of(there))
    if pytest.importorskip("pyarrow"):
        with pytest.raises(DataError, match=r"memory://.*/a cannot be read as a Parquet file"):
            rows_of(there)


@pytest.mark.parametrize("kind", ["records", "lines"])
def test_a_file_that_goes_while_it_is_used_is_named_with_its_address(kind: str, there: str, tmp_path) -> None:
    write_all(kind, tmp_path)
    files = fsspec.filesystem("memory")
    files.put(f"{tmp_path}/", "/there/", recursive=True)
    data = KINDS[kind](there)

    def batches() -> Any:
        found = training_batches(data, WHOLE, 32, 1, 0)
        files.rm("/there/c")
        return found

    with pytest.raises(tf.errors.OpError, match=r"memory://.*/c cannot be read"):
        labels_of(batches, check, 1000)


def test_names_that_match_nothing_and_packages_that_are_missing_are_told(there: str) -> None:
    with pytest.raises(DataError, match="no file has a name like memory://there/none: check --data_dir"):
        TextLines(f"{there}/none", numbers)
    with pytest.raises(ConfigError, match="nobody://a/b cannot be reached: no package of fsspec knows nobody://"):
        TextLines("nobody://a/b", numbers)
    assert missing_package("memory") == ""


def test_hidden_files_below_a_directory_are_no_rows(there: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("pyarrow")
    write_rows(tmp_path / "a.parquet", 0, 10)
    files = fsspec.filesystem("memory")
    files.put(f"{tmp_path}/a.parquet", "/there/day=1/a.parquet")
    files.pipe("/there/day=1/_SUCCESS", b"")
    found = labels_of(lambda: training_batches(Parquet(there, label="day"), WHOLE, 4, 1, 0), lambda *_: None, 20)
    assert found == [1] * 10


@pytest.mark.long
def test_a_copy_is_gone_although_the_process_is_killed(tmp_path: pathlib.Path) -> None:
    code = (
        "import fsspec, os; from ps_train.data.opened_files import local_copy;"
        "fsspec.filesystem('memory').pipe('/a', b'content'); print(open(local_copy('memory://a')).read(), flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert (done.returncode, done.stdout) == (-9, "content\n"), done.stderr
    assert not [*tmp_path.iterdir()]
    assert local_copy("/any/local/file") == "/any/local/file"
