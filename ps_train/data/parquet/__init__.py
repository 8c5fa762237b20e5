"""Parquet files as data: row groups are divided among the replicas, and columns become tensors.

The idea: a Parquet file is a sequence of row groups, each of which can be read alone.  So rows are counted once, from
the files' footers, and a replica or a shard is a run of rows.  pyarrow reads, decompresses and checks; here its columns
become tensors, without a Python object for each value.

Data structures: a `RowGroup` is one row group of a file, with the values of partitioned columns.  A `RowRun` is a part
of it to read.  A `Column` makes tensors of one Arrow column.

It does not know shuffling, epochs or batches.
"""
