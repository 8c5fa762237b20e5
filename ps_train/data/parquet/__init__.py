"""Parquet files as data: row groups are divided among the replicas, and columns become tensors.

The idea: a Parquet file is a sequence of row groups, each of which can be read alone.  So rows are counted once, from
the files' footers, and a replica or a shard is a run of rows.  pyarrow reads, decompresses and checks; here its columns
become tensors, without a Python object for each value.

Data structures: a `RowGroup` is one row group of a file, with the values of partitioned columns.  A `RowRun` is a part
of it to read.  A `Column` makes tensors of one Arrow column.

It does not know shuffling, epochs or batches.

Files:

    columns.py          Columns of Arrow tables as tensors: their types, missing values and lists
    footers.py          The row groups of files, and the columns that the files have in common
    parquet_files.py    `Parquet`: row groups as chunks under static sharding, and as pieces under dynamic sharding
    reading.py          Reading of runs of rows, and columns of what is read
    row_runs.py         The cut of row groups into runs of rows, for replicas and for shards
"""
