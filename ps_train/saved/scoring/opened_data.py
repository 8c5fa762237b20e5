"""The rows that the flags of a command name, in any format.

data = open_data(DataSpec(["data/test-*.parquet"]), exported)
"""

from __future__ import annotations

from collections.abc import Sequence

from ps_train.base.errors import ConfigError, DataError
from ps_train.data.file_names import files_like
from ps_train.data.gzip_files import unpacked
from ps_train.data.parquet.parquet_files import check_pyarrow
from ps_train.data.record_index import HEADER_BYTES, is_header
from ps_train.saved.scoring.file_rows import ParquetData, RecordData
from ps_train.saved.scoring.formats import DELIMITERS, format_of_name
from ps_train.saved.scoring.model_rows import ModelData
from ps_train.saved.scoring.rows import Data, DataSpec
from ps_train.saved.scoring.text_rows import CellData, JsonData
from ps_train.saved.serving.exported import Exported


def open_data(spec: DataSpec, exported: Exported, extra: Sequence[str] = (), result: str = "") -> Data:
    """Opens the files of a command for a model.

    Args:
      spec: the files.
      exported: the model.
      extra: further columns that must be there.
      result: format of the result, one of FORMATS; "": of none.

    Raises:
      ConfigError: a package is missing, or the format is not known.
      DataError: a file is missing or not of its format, there is no such column, or the model does not take these rows.
    """
    check_pyarrow()
    if spec.model:
        return ModelData(spec.model, spec.model_arguments, spec.split, ",".join(spec.files), extra)
    files = files_like(list(spec.files), below=True, source="--data")
    kind = spec.format or _format_of(files)
    if spec.types and kind in ("parquet", "tfrecord"):
        raise ConfigError(f"--types is for csv, tsv and jsonl: the columns of {kind} files have types.")
    if kind == "tfrecord":
        if not exported.takes_examples:
            raise DataError(f"{exported.path} has no signature for tf.train.Examples: give data with columns.")
        return RecordData(files)
    if kind == "parquet":
        return ParquetData(files, spec, exported.features, extra)
    if kind == "jsonl":
        return JsonData(files, spec, exported.features, as_texts=result == "jsonl")
    return CellData(files, kind, spec, exported.features, extra, as_texts=result in DELIMITERS)


def _format_of(files: Sequence[str]) -> str:
    kinds = {format_of_name(path) or _format_of_content(path) for path in files}
    if len(kinds) > 1:
        raise DataError(f"the files are of different formats ({', '.join(sorted(kinds))}): give files of one format.")
    return kinds.pop()


def _format_of_content(path: str) -> str:
    with unpacked(path) as file:
        start = file.read(1 << 12)
    if start.startswith(b"PAR1"):
        return "parquet"
    if is_header(start[:HEADER_BYTES]):
        return "tfrecord"
    if start.lstrip().startswith(b"{"):
        return "jsonl"
    return "tsv" if b"\t" in start.partition(b"\n")[0] else "csv"
