"""The footers of Parquet files: row groups, columns, and files that cannot be read."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ps_train import DataError
from ps_train.data.parquet.footers import read_footers
from tests.support.data.rows import table, write_rows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_row_groups_have_their_places(tmp_path: pathlib.Path) -> None:
    write_rows(tmp_path / "a", 0, 25, 10)
    write_rows(tmp_path / "b", 0, 0)
    write_rows(tmp_path / "c", 0, 3)
    paths = [str(tmp_path / name) for name in "abc"]
    found = [(group.path, group.number, group.first_row, group.rows) for group in read_footers(paths, None).groups]
    assert found == [(paths[0], 0, 0, 10), (paths[0], 1, 10, 10), (paths[0], 2, 20, 5), (paths[2], 0, 0, 3)]


def test_the_columns_of_paths_are_integers_if_all_their_values_are(tmp_path: pathlib.Path) -> None:
    for day, kind in (("1", "1"), ("1767225600000", "x"), ("__HIVE_DEFAULT_PARTITION__", "2")):
        write_rows(tmp_path / f"day={day}" / f"kind={kind}" / "a", 0, 1)
    paths = sorted(str(path) for path in tmp_path.glob("*/*/a"))
    footers = read_footers(paths, None)
    assert footers.constants == {"day", "kind"}
    assert footers.fields["day"] == pa.int64() and footers.fields["kind"] == pa.string()
    values = [{name: value.as_py() for name, value in group.constants.items()} for group in footers.groups]
    assert values == [{"day": 1, "kind": "1"}, {"day": 1767225600000, "kind": "x"}, {"day": None, "kind": "2"}]


def write_foreign(path: pathlib.Path) -> None:
    path.write_bytes(b"id,click\n" * 100)


def write_empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


def write_cut(path: pathlib.Path) -> None:
    write_rows(path, 0, 100)
    path.write_bytes(path.read_bytes()[:-30])


def write_encrypted(path: pathlib.Path) -> None:
    import pyarrow.parquet.encryption as encryption

    class Plain(encryption.KmsClient):
        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
            return key_bytes.hex().encode()

        def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
            return bytes.fromhex(wrapped_key.decode())

    factory = encryption.CryptoFactory(lambda config: Plain())
    config = encryption.EncryptionConfiguration(footer_key="f", column_keys={"k": ["number"]})
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    made = table(range(10))
    with pq.ParquetWriter(str(path), made.schema, encryption_properties=properties) as writer:
        writer.write_table(made)


@pytest.mark.parametrize("write", [write_foreign, write_empty, write_cut, write_encrypted])
def test_a_file_that_is_no_parquet_file_is_refused_by_name(tmp_path: pathlib.Path, write: Any) -> None:
    write_rows(tmp_path / "a", 0, 10)
    write(tmp_path / "b")
    with pytest.raises(DataError, match=r"^[^\n]*/b [^\n]*$"):
        read_footers([f"{tmp_path}/a", f"{tmp_path}/b"], None)


def test_files_whose_columns_differ_are_told_together(tmp_path: pathlib.Path) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    pq.write_table(pa.table({"x": [1], "y": [1]}), paths[0])
    pq.write_table(pa.table({"x": [1.5], "z": [2], "y": [1]}), paths[1])
    with pytest.raises(DataError, match=r"^column x is int64 in .*/a, and double in .*/b: give all files one type\.$"):
        read_footers(paths, None)
    with pytest.raises(DataError, match=r"^.*/b has a column z, and .*/a has none: all files need the same columns\.$"):
        read_footers(paths, ["z"])
    assert len(read_footers(paths, ["y"]).groups) == 2


def test_variants_of_a_type_are_the_same_type(tmp_path: pathlib.Path) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    for path, kind in zip(paths, (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())), strict=True):
        pq.write_table(pa.table({"x": pa.array(["a"], kind)}), path)
    assert len(read_footers(paths, None).groups) == 3


def test_two_columns_of_one_name_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    array = pa.array([1, 2])
    for name, tables in (
        ("x", pa.table([array, array], ["x", "x"])),
        ("s.x", pa.table([pa.array([{"x": 1}, {"x": 2}]), array], ["s", "s.x"])),
    ):
        pq.write_table(tables, tmp_path / "a.parquet")
        with pytest.raises(DataError, match=rf"a.parquet has two columns of the name '{name}': rename one"):
            read_footers([str(tmp_path / "a.parquet")], None)
