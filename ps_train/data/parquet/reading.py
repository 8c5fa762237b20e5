"""Reading of runs of rows, and columns of what is read.

for first, rows in read_run(group, RowRun(0, 100, 50), ["user", "price"], ["user"]):
    column_in(rows, "price")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ps_train.base.errors import one_line
from ps_train.data.opened_files import errors_of
from ps_train.data.parquet.arrow import pa, pc, pq
from ps_train.data.parquet.footers import RowGroup, file_system
from ps_train.data.parquet.row_runs import RowRun
from ps_train.data.stream import pipeline_error

CHUNK_ROWS = 1 << 14
"""Rows that are read together: enough to make the cost of a call negligible."""

_AS_DICTIONARIES = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""Encodings of columns that pyarrow can read as dictionaries."""


def read_run(
    group: RowGroup, run: RowRun, columns: Sequence[str], texts: Sequence[str], most_rows: int = 0
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields a run's rows, some at a time, each with the index in the row group of the first one.

    Args:
      group: the row group of the run.
      run: first row in the group, and number of rows.
      columns: names of the columns to read.
      texts: names of those that are read as dictionaries if their encoding allows it.
      most_rows: most rows of a batch; 0: CHUNK_ROWS.

    Raises:
      Exception: as `pipeline_error` makes it: the file cannot be read, or has changed.
    """
    before, last = 0, run.first + run.rows
    try:
        chunks = group.metadata.row_group(group.number)
        plain = {
            chunks.column(index).path_in_schema
            for index in range(chunks.num_columns)
            if _AS_DICTIONARIES.issuperset(chunks.column(index).encodings)
        }
        dictionaries = [name for name in texts if name in plain]
        options = {"metadata": group.metadata, "read_dictionary": dictionaries, "page_checksum_verification": True}
        with pq.ParquetFile(group.path, filesystem=file_system(group.path), **options) as file:
            read = columns or file.schema_arrow.names[:1]  # the columns of a path have as many rows as others
            for batch in file.iter_batches(most_rows or CHUNK_ROWS, [group.number], read, use_threads=False):
                start, stop = max(run.first - before, 0), min(last - before, batch.num_rows)
                if start < stop:
                    yield before + start, batch.slice(start, stop - start)
                before += batch.num_rows
                if before >= last:
                    return
    except (*errors_of(group.path), pa.ArrowException) as error:
        raise pipeline_error(f"{group.path} cannot be read: {one_line(error)}.") from None
    raise pipeline_error(f"{group.path} has {before} rows in row group {group.number}, not {group.rows}.")


def column_in(rows: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    """Returns a column, or a field of a struct, in one piece."""
    outer = name
    fields: list[str] = []
    while outer not in rows.schema.names:
        outer, _, field = outer.rpartition(".")
        fields.insert(0, field)
    column = rows.column(outer)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.struct_field(column, fields) if fields else column
