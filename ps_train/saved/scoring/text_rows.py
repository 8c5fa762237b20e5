"""Rows of text files: csv and tsv by pyarrow's reader, and JSON, an object a line.

Texts are carried as they are.  A column of csv is one of numbers if the model takes numbers of it, or if --types says
so.  Lines of JSON are parsed by Python's `json`: pyarrow's reader makes times of texts that look like some, and floats
of integers above 64 bits, or beside floats.  A schema given to it does not help: a column of texts then refuses
numbers, columns that only later records have are not in it, and half of a surrogate pair ends the read.
"""

from __future__ import annotations

import abc
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ps_train.base.errors import ConfigError, DataError, one_line
from ps_train.data.data_shard import DataShard
from ps_train.data.gzip_files import is_gzipped
from ps_train.data.opened_files import errors_of, size_of
from ps_train.data.parquet.arrow import pa, pc
from ps_train.data.text_lines import Blocks, first_line, place_of_line, read_block, read_gzip
from ps_train.saved.scoring.formats import DELIMITERS
from ps_train.saved.scoring.rows import Data, DataSpec, Features, Rows, check_columns, check_different, defaults_for
from ps_train.saved.serving.feature_values import Feature

LIST_SEPARATOR = "|"
"""Separates the elements of a list in a cell of csv and tsv."""

_PART_BYTES, _BLOCK_BYTES = 32 << 20, 2 << 20
"""Bytes of a part of a text file, and of those that are read together."""

Place = Callable[[int], str]


class _LineData(Data):
    """Lines of text files; a part is a run of bytes, or a gzipped file."""

    def __init__(self, files: Sequence[str], spec: DataSpec) -> None:
        self.files = files
        self.types = {name: _type(name, text) for name, text in spec.types.items()}
        self._parts: list[tuple[str, DataShard]] = []
        for path in files:
            count = 1 if is_gzipped(path) else max(1, -(-size_of(path) // _PART_BYTES))
            self._parts += [(path, DataShard(index, count)) for index in range(count)]
        self.parts = len(self._parts)

    def read(self, part: int, batch_size: int) -> Iterator[Rows]:
        """Yields the lines of a part."""
        path, shard = self._parts[part]
        for first, step, text in _blocks(path, shard):
            yield from self._rows(_place(path, first, step), text, first == 0, batch_size)

    @abc.abstractmethod
    def _rows(self, place: Place, text: bytes, is_first: bool, batch_size: int) -> Iterator[Rows]:
        r"""Yields the rows of whole lines, each ended by one \n.

        Args:
          place: returns the place of a line in words.
          text: the lines.
          is_first: True if the first line is the first one of its file.
          batch_size: most rows of a batch.
        """


def _blocks(path: str, shard: DataShard) -> Iterator[tuple[int, int, bytes]]:
    """Yields whole lines of a part, with the `first` and `step` of their `LineRange`."""
    try:
        if is_gzipped(path):
            for number, text in read_gzip(path, 0, 1, _BLOCK_BYTES):
                yield number, 1, text
            return
        for block in Blocks([size_of(path)], shard, _BLOCK_BYTES):
            first, text = read_block(path, block.start, block.stop)
            if text:
                yield first, 0, text
    except DataError:
        raise
    except (*errors_of(path), EOFError, zlib.error) as error:  # type: ignore[misc]
        raise DataError(f"{path} cannot be read: {one_line(error).rstrip('.')}.") from None


def _place(path: str, first: int, step: int) -> Place:
    return lambda index: place_of_line(path, first, step, index)


def _type(name: str, text: str) -> pa.DataType:
    try:
        return pa.type_for_alias(text)
    except ValueError:
        raise ConfigError(
            f"types={name}={text} is not a type: use string, bool, int64, uint64, float32, float64, or another type of "
            "pyarrow."
        ) from None


class CellData(_LineData):
    """Rows of csv and tsv.  A tsv has no quotes, so a quote is a character there.

    Args:
      kind: "csv" or "tsv".
      spec: has the header, the defaults and the types.
      features: what a model takes of them.
      extra: further columns that must be there.
      as_texts: True to carry all cells as they are, for a result of cells.
    """

    def __init__(
        self,
        files: Sequence[str],
        kind: str,
        spec: DataSpec,
        features: Mapping[str, Feature],
        extra: Sequence[str],
        as_texts: bool,
    ) -> None:
        super().__init__(files, spec)
        self._delimiter, self._has_header = DELIMITERS[kind], not spec.header
        self.columns: list[str] = list(spec.header) or self._names_in(files[0])
        for path in files[1:] if self._has_header else []:
            if (other := self._names_in(path)) != self.columns:
                names = f"{', '.join(other[:10])} and not {', '.join(self.columns[:10])}"
                raise DataError(f"{path} has the columns {names}, as {files[0]}: all files need the same columns.")
        check_different("--header" if spec.header else files[0], self.columns)
        check_columns(self.columns, [*features, *extra, *spec.types])
        defaults = defaults_for(spec, features, self.columns)
        self.defaults = {name: _as_cell(text) for name, text in defaults.items()}
        self.values = Features(features, {})
        of_model = {name: _arrow_type(one) for name, one in features.items() if not _takes_lists(one)}
        self.carried_types = {} if as_texts else of_model | self.types
        for name in features.keys() & self.defaults.keys():
            self.array(features[name], _cells([None]), lambda _, name=name: f"--default={name}")  # type: ignore[misc]

    def _names_in(self, path: str) -> list[str]:
        line = first_line(path)
        if not line.strip():
            raise DataError(f"{path} has no first line with the names of its columns: give them by --header.")
        place = _place(path, 0, 0)
        _check_utf8(line, place)
        try:
            return list(self._read(line + b"\n", []).column_names)
        except pa.ArrowException as error:
            raise DataError(f"{place(0)} cannot be read: {one_line(error)}.") from None

    def _read(self, text: bytes, names: Sequence[str], on_error: Any = None) -> pa.Table:
        from pyarrow import csv

        return csv.read_csv(
            pa.BufferReader(text),
            csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
            csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char=False if self._delimiter == "\t" else '"',
                ignore_empty_lines=False,
                invalid_row_handler=on_error,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )

    def _rows(self, place: Place, text: bytes, is_first: bool, batch_size: int) -> Iterator[Rows]:
        _check_utf8(text, place)
        skipped = int(is_first and self._has_header)
        if skipped:
            text = text.partition(b"\n")[2]
        if not text:
            return
        place = _after(place, skipped)
        self._check_lines(text, place)
        wrong: list[Any] = []

        def refuse(row: Any) -> str:
            wrong.append(row)
            return "error"

        try:
            table = self._read(text, self.columns, refuse).combine_chunks()
        except pa.ArrowException as error:
            if not wrong:
                raise DataError(f"{place(0)} or a line after it cannot be read: {one_line(error)}.") from None
            row = wrong[0]
            number, cells = place(row.number - 1), f"{row.actual_columns} cells, not {row.expected_columns}"
            raise DataError(f"{number} has {cells}: {row.text[:80]!r}.") from None
        for name in self.columns if b'"' in text else []:
            row = pc.index(pc.match_substring(table.column(name), "\n"), pa.scalar(True)).as_py()
            if row >= 0:
                raise DataError(f"{place(row)} has a cell without a closing quote in its line: a line is a row.")
        for start in range(0, table.num_rows, batch_size):
            yield _CellRows(self, table.slice(start, batch_size), _after(place, start))

    def _check_lines(self, text: bytes, place: Place) -> None:
        r"""Raises DataError if pyarrow would cut a line into several: of a \r, or take an empty one for a row."""
        may_have_quotes = self._delimiter != "\t"
        lines = text.split(b"\n")[:-1] if b"\r" in text or b"\n\n" in text or text.startswith(b"\n") else []
        for number, line in enumerate(lines):
            if not line and len(self.columns) > 1:
                raise DataError(f"{place(number)} is empty.")
            if b"\r" in line and not (may_have_quotes and b'"' in line):
                raise DataError(f"{place(number)} has a carriage return within a cell: {line[:60]!r}.")

    def array(self, feature: Feature, cells: pa.Array, place: Place) -> pa.Array:
        """Returns the column of a feature, from its cells."""
        if feature.name in self.defaults:
            cells = pc.fill_null(cells, self.defaults[feature.name])
        if not _takes_lists(feature):
            return in_type(feature.name, cells, _arrow_type(feature), place)
        if feature.kind != "dense":
            cells = pc.fill_null(cells, "")
        lists = pc.split_pattern(cells, LIST_SEPARATOR)
        lists = pc.if_else(pc.equal(cells, ""), _cells([[]], lists.type)[0], lists)
        splits = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy())])

        def place_of_element(index: int) -> str:
            return place(int(np.searchsorted(splits, index, "right")) - 1)

        found = in_type(feature.name, lists.flatten(), _arrow_type(feature), place_of_element)
        mask = lists.is_null() if lists.null_count else None
        return type(lists).from_arrays(splits.astype(np.int32), found, mask=mask)


def _cells(values: Sequence[Any], kind: Any = None) -> pa.Array:
    return pa.array(values, kind or pa.string())


def _check_utf8(text: bytes, place: Place) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        before = text[: error.start]
        line = text[before.rfind(b"\n") + 1 :].partition(b"\n")[0][:60]
        number = before.count(b"\n")
        raise DataError(f"{place(number)} is not UTF-8: {line!r}.") from None


def _after(place: Place, start: int) -> Place:
    return lambda row: place(start + row)


def _as_cell(text: str) -> str:
    """Returns the cell of a default: a string of JSON without its quotes, anything else as it is."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if isinstance(found, list):
        return LIST_SEPARATOR.join(map(str, found))
    return found if isinstance(found, str) else text


def _takes_lists(feature: Feature) -> bool:
    return feature.kind != "dense" or feature.row_shape not in (None, (), (1,))


def _arrow_type(feature: Feature) -> pa.DataType:
    """Returns the type of a feature's values in text."""
    kinds = {"O": pa.string(), "i": pa.int64(), "u": pa.uint64(), "b": pa.bool_()}
    return kinds.get(np.dtype(feature.dtype).kind, pa.float64())


def in_type(name: str, cells: pa.Array, kind: pa.DataType, place: Place) -> pa.Array:
    """Returns texts in a type.

    Raises:
      DataError: a text is not of the type.
    """
    if cells.type == kind:
        return cells
    trimmed = pc.utf8_trim_whitespace(cells)
    try:
        return trimmed.cast(kind)
    except pa.ArrowException:
        for row in range(len(trimmed)):
            try:
                trimmed[row].cast(kind)
            except pa.ArrowException:
                raise DataError(f"{place(row)}, column {name}: {cells[row].as_py()[:80]!r} is not {kind}.") from None
        raise


class _CellRows(Rows):
    def __init__(self, data: CellData, table: pa.Table, place: Place) -> None:
        self._data, self._table, self._place = data, table, place

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def _column(self, name: str) -> pa.Array:
        return self._table.column(name).combine_chunks()

    def values(self) -> Mapping[str, Any]:
        found = {}
        for name, feature in self._data.values.features.items():
            array = self._data.array(feature, self._column(name), self._place)
            found[name] = self._data.values.value(name, array, self._place)
        return found

    def carried(self, columns: Sequence[str] | None) -> dict[str, pa.Array]:
        types = self._data.carried_types
        names = self._data.columns if columns is None else columns
        return {name: in_type(name, self._column(name), types.get(name, pa.string()), self._place) for name in names}


class JsonData(_LineData):
    """Rows of JSON, an object a line; each has the columns that it has.

    Args:
      spec: has the defaults and the types.
      features: what a model takes of them.
      as_texts: True to carry all values as texts of JSON, for a result of JSON.
    """

    columns = None

    def __init__(self, files: Sequence[str], spec: DataSpec, features: Mapping[str, Feature], as_texts: bool) -> None:
        super().__init__(files, spec)
        if spec.header:
            raise ConfigError("--header is for csv and tsv: the lines of jsonl have the names.")
        self.is_of_json_texts = as_texts
        defaults = defaults_for(spec, features, None)
        lists = {name: "[]" for name, one in features.items() if one.kind != "dense"}
        self.values = Features(features, lists | defaults)

    def _rows(self, place: Place, text: bytes, is_first: bool, batch_size: int) -> Iterator[Rows]:
        records, numbers = [], []
        for number, line in enumerate(text.split(b"\n")):
            if line.strip():
                records.append(_record(line, _after(place, number)))
                numbers.append(number)
        for start in range(0, len(records), batch_size):
            some = numbers[start : start + batch_size]
            yield _JsonRows(self, records[start : start + batch_size], lambda row, some=some: place(some[row]))  # type: ignore[misc]


def _record(line: bytes, place: Place) -> dict[str, Any]:
    def different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            check_different(place(0), [name for name, _ in pairs])
        return found

    try:
        record = json.loads(line, object_pairs_hook=different)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place(0)} is not JSON ({one_line(error)}): {line[:60]!r}.") from None
    if not isinstance(record, dict):
        raise DataError(f"{place(0)} is not an object of JSON: {line[:60]!r}.")
    return record


class _JsonRows(Rows):
    def __init__(self, data: JsonData, records: list[dict[str, Any]], place: Place) -> None:
        self._data, self._records, self._place = data, records, place

    def __len__(self) -> int:
        return len(self._records)

    def values(self) -> Mapping[str, Any]:
        return {name: self._value(name, feature) for name, feature in self._data.values.features.items()}

    def _value(self, name: str, feature: Feature) -> Any:
        values = [one.get(name) for one in self._records]
        array = _inferred(values)
        if array is None and np.dtype(feature.dtype).kind in "fV":
            array = _inferred(values, _arrow_type(feature))  # integers of many digits beside floats
        if array is None:
            kinds = ", ".join(sorted({type(value).__name__ for value in values}))
            raise DataError(f"{self._place(0)} or a line after it: {name} has values of several types ({kinds}).")
        return self._data.values.value(name, array, self._place)

    def carried(self, columns: Sequence[str] | None) -> dict[str, pa.Array]:
        names = dict.fromkeys(name for one in self._records for name in one) if columns is None else columns
        return {name: self._carried(name) for name in names}

    def _carried(self, name: str) -> pa.Array:
        values = [one.get(name) for one in self._records]
        found = None
        if name in self._data.types:
            found = in_type(name, pa.array(map(text_of, values), pa.string()), self._data.types[name], self._place)
            values = found.to_pylist()
        if self._data.is_of_json_texts:
            return pa.array([None if value is None else json_of(value) for value in values], pa.string())
        found = _inferred(values) if found is None else found
        return pa.array(map(text_of, values), pa.string()) if found is None else found


def _inferred(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array | None:
    """Returns an array of values of one type, None if they are of several."""
    try:
        return pa.array(values, kind)
    except OverflowError:  # above int64
        return None if kind else _inferred(values, pa.uint64())
    except (pa.ArrowException, TypeError, ValueError):
        return None


def json_of(value: Any) -> str:
    """Returns a value as JSON, with half of a surrogate pair as its escape."""
    text = json.dumps(value, ensure_ascii=False, default=_as_json)
    return text if not any("\ud800" <= one <= "\udfff" for one in text) else json.dumps(value, default=_as_json)


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value)  # times and decimals


def text_of(value: Any) -> str | None:
    """Returns a value of a column with values of several types as text."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if value is None or isinstance(value, str):
        return value and value.encode(errors="backslashreplace").decode()
    return json_of(value)
