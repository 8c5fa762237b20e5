"""Rows of files, for a model and for a result; the columns are Arrow arrays.

    data = ParquetData(files, DataSpec(files), features, extra=["click"])
    for part in range(data.parts):
        for rows in data.read(part, 4096):
            rows.values()           # feature name to value, as `Exported.predict` takes them
            rows.carried(columns)   # column name to Arrow array, for the result

A part is read alone, always in the same batches.  The parts in their order, and the rows in each, have the order of the
files.
"""

from __future__ import annotations

import abc
import dataclasses
import fnmatch
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.opened_files import size_of
from ps_train.data.parquet.arrow import pa, pc
from ps_train.data.parquet.columns import MissingValueError, column_of, plain_type
from ps_train.saved.serving.exported import Exported
from ps_train.saved.serving.feature_values import Feature


@dataclasses.dataclass(frozen=True)
class DataSpec:
    """The data of a command.

    Attributes:
      files: patterns of files, or directories.
      format: one of FORMATS; "": by the names of the files, or their first bytes.
      header: names of the columns of csv and tsv files without a first line that has them.
      defaults: pairs of a column, or a pattern of columns, and the text of the value that stands for missing ones.
      types: column to the name of its type, for the result of csv, tsv and jsonl.
      model: `package.module:Class` of a model whose `data` reads the files, below the one directory of `files`.
      model_arguments: of its constructor, as texts.
      split: of its data.
    """

    files: Sequence[str]
    format: str = ""
    header: Sequence[str] = ()
    defaults: Sequence[tuple[str, str]] = ()
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    model: str = ""
    model_arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    split: str = "test"


class Rows(abc.ABC):
    """A batch of rows."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def values(self) -> Mapping[str, Any]:
        """Returns name to value of the features that a model takes."""

    def predictions(self, exported: Exported) -> Mapping[str, Any]:
        """Returns output name to value, with a row for each row here."""
        return exported.predict(self.values())

    @abc.abstractmethod
    def carried(self, columns: Sequence[str] | None) -> dict[str, pa.Array]:
        """Returns the columns for a result by name; those that the rows have for None."""


class Data(abc.ABC):
    """The rows of some files.

    Attributes:
      parts: number of parts.
      columns: names of all columns; None: each row has its own.
      is_of_examples: True if the rows are serialized `tf.train.Example`s.
      is_of_json_texts: True if the carried columns are texts of JSON.
    """

    files: Sequence[str]
    parts: int
    columns: Sequence[str] | None
    is_of_examples = is_of_json_texts = False

    @abc.abstractmethod
    def read(self, part: int, batch_size: int) -> Iterator[Rows]:
        """Yields the rows of a part, always in the same batches.

        Raises:
          DataError: a file is damaged or foreign.
        """

    def identity(self) -> list[list[Any]]:
        """Returns what tells these files from others: names, sizes, and times of their last changes."""
        found: list[list[Any]] = []
        for path in self.files:
            changed = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
            found.append([path, size_of(path), changed])
        return found


def check_columns(columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises DataError if a wanted column is not there."""
    if missing := [name for name in wanted if name not in columns]:
        shown = ", ".join(columns[:30]) + (", ..." if len(columns) > 30 else "")
        raise DataError(f"the files have no column {missing[0]!r}: they have {shown}.")


def check_different(path: str, columns: Sequence[str]) -> None:
    """Raises DataError if two columns of a file have one name."""
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise DataError(f"{path} has two columns of the name {twice[0]!r}: rename one.")


def defaults_for(spec: DataSpec, features: Mapping[str, Feature], columns: Sequence[str] | None) -> dict[str, str]:
    """Returns feature name to the text of its default; a column's own name counts more than a pattern.

    Args:
      spec: has the defaults.
      features: what the model takes.
      columns: names of the columns that there are; None: not known.

    Raises:
      DataError: no column has such a name.
    """
    patterned: dict[str, str] = {}
    named: dict[str, str] = {}
    for name, text in spec.defaults:
        if name in features or name in (columns or ()) or (columns is None and not set("*?[") & set(name)):
            named[name] = text
        elif found := fnmatch.filter(features, name):
            patterned.update(dict.fromkeys(found, text))
        else:
            check_columns([*features] if columns is None else columns, [name])
    return patterned | named


class Features:
    """Values of a model's features, from Arrow arrays.

    Args:
      features: what the model takes.
      defaults: feature name to the text of its default, which is JSON, or a string.
    """

    def __init__(self, features: Mapping[str, Feature], defaults: Mapping[str, str]) -> None:
        self.features, self.defaults = features, defaults

    def value(self, name: str, array: pa.Array, place: Callable[[int], str]) -> Any:
        """Returns the value of a feature, as `Exported.predict` takes it.

        Args:
          name: of the feature.
          array: its column.
          place: returns the place of a row in words.

        Raises:
          DataError: a value is missing, or has another type.
        """
        feature, default = self.features[name], self._default(name)
        try:
            if isinstance(default, list):
                array = _with_lists(array, default)
                default = None
            if feature.kind == "dense":
                return _dense(name, array, default)
            values = pa.string() if np.dtype(feature.dtype).kind == "O" else pa.int64()
            array = array.cast(_without_null(array.type, values))
            column = column_of(name, array.type, default)
            return column.tensor([tf.constant(one) for one in column.arrays(array)])
        except MissingValueError as error:
            raise DataError(
                f"{place(error.row)} has no value in column {name}: give one by --default={name}=VALUE."
            ) from None
        except pa.ArrowException as error:
            raise DataError(f"{place(0)} or a row after it, column {name}: {error}.") from None

    def check(self, name: str, arrow: pa.DataType) -> None:
        """Raises DataError if a column of a type has no value for the model, or not with its default."""
        kind, default = pa.types, self._default(name)
        arrow = plain_type(arrow)
        while self.features[name].kind == "dense" and (kind.is_list(arrow) or kind.is_fixed_size_list(arrow)):
            arrow = plain_type(arrow.value_type)
        column_of(name, arrow, None if isinstance(default, list) else default)

    def _default(self, name: str) -> Any:
        if name not in self.defaults:
            return None
        text, is_text = self.defaults[name], np.dtype(self.features[name].dtype).kind == "O"
        try:
            found = json.loads(text)
        except ValueError:
            found = text
        if isinstance(found, list) or not is_text:
            return found
        return found if isinstance(found, str) else text  # a text of digits stays as it is


def _without_null(kind: pa.DataType, values: pa.DataType) -> pa.DataType:
    """Returns the type of lists for one of missing values alone."""
    if pa.types.is_list(kind):
        return pa.list_(_without_null(kind.value_type, values))
    return values if pa.types.is_null(kind) else kind


def _with_lists(array: pa.Array, default: list[Any]) -> pa.Array:
    """Returns a column whose missing lists are a default."""
    if not array.null_count:
        return array
    kind = None if pa.types.is_null(array.type) else array.type
    if kind is not None:
        pa.array([default]).cast(kind)  # raises where pa.array would cut off fractions
    return pa.array([default if one is None else one for one in array.to_pylist()], kind)


def _dense(name: str, array: pa.Array, default: Any) -> np.ndarray[Any, Any]:
    """Returns an array [n, ...] of a column of values, or of lists of the same length, at any depth."""
    shape, kind = [len(array)], pa.types
    try:
        while kind.is_list(plain_type(array.type)) or kind.is_fixed_size_list(plain_type(array.type)):
            array = array.storage if isinstance(array, pa.ExtensionArray) else array
            if array.null_count:
                raise MissingValueError(int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]))
            lengths = np.unique(pc.list_value_length(array).to_numpy(zero_copy_only=False))
            if len(lengths) > 1:
                raise DataError(f"{name} has lists of different lengths, {lengths[0]} and {lengths[-1]}.")
            shape.append(int(lengths[0]) if len(lengths) else 0)
            array = array.flatten()
        if kind.is_null(array.type):
            array = array.cast(pa.string() if isinstance(default, str) else pa.scalar(default).type)
        column = column_of(name, array.type, default)
        arrays = column.arrays(array)
    except MissingValueError as error:
        raise MissingValueError(error.row // max(1, int(np.prod(shape[1:])))) from None
    found = arrays[0] if len(arrays) == 1 else arrays[0][arrays[1]]  # different texts, and the index of each row's
    return found.reshape(shape)
