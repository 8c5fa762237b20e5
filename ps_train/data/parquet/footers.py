"""The row groups of Parquet files, and the columns that the files have in common.

    footers = read_footers(["data/day=1/a.parquet", "data/day=2/b.parquet"], columns=None)
    footers.groups[0].rows, footers.fields["day"]

Columns of a path, as `day=1`, are columns of the data.  Fields of a struct are columns with a dot in their names.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ps_train.base.errors import DataError, one_line
from ps_train.base.remote_files import file_system_of, scheme_of
from ps_train.data.opened_files import errors_of, size_of
from ps_train.data.parquet.arrow import pa, pq
from ps_train.data.parquet.columns import plain_type

_INTEGER = re.compile(r"-?[0-9]{1,18}")
"""A value of a path's column that is an integer."""

_THREADS = 8
"""Footers that are read at the same time: a remote file system takes long for each."""


@dataclasses.dataclass(frozen=True)
class RowGroup:
    """One row group of a file.

    Attributes:
      path: the file.
      number: its index in the file.
      first_row: index in the file of its first row.
      rows: number of rows.
      bytes: size of all its columns before compression.
      metadata: the footer of the file.
      constants: name to value of the columns of the path, which may be null.
    """

    path: str
    number: int
    first_row: int
    rows: int
    bytes: int
    metadata: pq.FileMetaData
    constants: Mapping[str, pa.Scalar]


@dataclasses.dataclass(frozen=True)
class Footers:
    """The contents of all footers.

    Attributes:
      groups: the row groups with rows, in the order of the files.
      fields: name to type, for each column of the data; those of paths come last.
      constants: names of the columns of paths.
    """

    groups: Sequence[RowGroup]
    fields: Mapping[str, pa.DataType]
    constants: frozenset[str]


def read_footers(paths: Sequence[str], columns: Iterable[str] | None) -> Footers:
    """Returns the row groups and columns of some files, which are read in parallel.

    Args:
      paths: the files.
      columns: names of the columns in which the files must not differ; None for all.

    Raises:
      DataError: a file is not a Parquet file, or two have not the same columns.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(_footer, paths))
    schemas = [_fields(path, metadata.schema.to_arrow_schema()) for path, metadata in zip(paths, found, strict=True)]
    of_paths = _columns_of_paths(paths)
    first = {**schemas[0], **_types(of_paths[0])}
    for path, schema, values in zip(paths, schemas, of_paths, strict=True):
        _check_same(paths[0], first, path, {**schema, **_types(values)}, columns)
    groups: list[RowGroup] = []
    for path, metadata, values in zip(paths, found, of_paths, strict=True):
        groups += [group for group in _row_groups(path, metadata, values) if group.rows]
    return Footers(groups, first, frozenset(of_paths[0]))


def _footer(path: str) -> pq.FileMetaData:
    if not size_of(path):
        raise DataError(f"{path} is empty: it is not a Parquet file.")
    try:
        return pq.read_metadata(path, filesystem=file_system(path))
    except (*errors_of(path), pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read as a Parquet file: {one_line(error)}.") from None


def file_system(path: str) -> Any:
    """Returns the file system of a file as pyarrow takes it: None for a local one."""
    return file_system_of(path) if scheme_of(path) else None


def _fields(path: str, schema: pa.Schema) -> dict[str, pa.DataType]:
    """Returns name to type; fields of structs have names with dots.

    Raises:
      DataError: two columns have one name.
    """
    fields: dict[str, pa.DataType] = {}
    pending = [(field.name, field.type) for field in reversed(schema)]
    while pending:
        name, kind = pending.pop()
        if pa.types.is_struct(kind) and kind.num_fields:
            pending += [(f"{name}.{field.name}", field.type) for field in reversed(list(kind))]
        elif name in fields:
            raise DataError(f"{path} has two columns of the name {name!r}: rename one.")
        else:
            fields[name] = kind
    return fields


def _columns_of_paths(paths: Sequence[str]) -> list[dict[str, pa.Scalar]]:
    """Returns name to value of the columns of each path: int64 if all its values are integers, else strings."""
    import pyarrow.dataset as ds

    names = dict.fromkeys(part.partition("=")[0] for path in paths for part in path.split("/")[:-1] if "=" in part)
    partitions = ds.HivePartitioning(pa.schema([(name, pa.string()) for name in names if name]))
    found = [ds.get_partition_keys(partitions.parse(path)) for path in paths]
    texts = {
        name for values in found for name, text in values.items() if text is not None and not _INTEGER.fullmatch(text)
    }

    def scalar(name: str, text: str | None) -> pa.Scalar:
        kind = pa.string() if name in texts else pa.int64()
        return pa.scalar(text if text is None or name in texts else int(text), kind)

    return [{name: scalar(name, values[name]) for name in names if name in values} for values in found]


def _types(values: Mapping[str, pa.Scalar]) -> dict[str, pa.DataType]:
    return {name: value.type for name, value in values.items()}


def _check_same(
    path: str,
    fields: Mapping[str, pa.DataType],
    other_path: str,
    other_fields: Mapping[str, pa.DataType],
    columns: Iterable[str] | None,
) -> None:
    for name in sorted({*fields, *other_fields}) if columns is None else columns:
        kind, other = fields.get(name), other_fields.get(name)
        if kind is None and other is None:
            continue  # the error of an unknown name lists the others
        if kind is None or other is None:
            has, lacks = (path, other_path) if other is None else (other_path, path)
            raise DataError(f"{has} has a column {name}, and {lacks} has none: all files need the same columns.")
        if plain_type(kind) != plain_type(other):
            raise DataError(f"column {name} is {kind} in {path}, and {other} in {other_path}: give all files one type.")


def _row_groups(path: str, metadata: pq.FileMetaData, constants: Mapping[str, pa.Scalar]) -> Iterable[RowGroup]:
    first = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        yield RowGroup(path, number, first, group.num_rows, group.total_byte_size, metadata, constants)
        first += group.num_rows
