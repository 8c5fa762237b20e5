"""Formats of data and results, and the names of their files.

    format_of_name("data/test-0.csv.gz")        # "csv"

It needs no TensorFlow, so the parser of a command line can use it.
"""

from __future__ import annotations

import os

FORMATS = ("parquet", "tfrecord", "csv", "tsv", "jsonl")

DELIMITERS = {"csv": ",", "tsv": "\t"}

_SUFFIXES = {
    "parquet": "parquet", "pq": "parquet", "tfrecord": "tfrecord", "tfrecords": "tfrecord", "csv": "csv", "tsv": "tsv",
    "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl",
}  # fmt: skip


def format_of_name(path: str) -> str:
    """Returns the format of a file by its name, "" if the name does not tell."""
    name = os.path.basename(path).lower().removesuffix(".gz")
    return _SUFFIXES.get(name.rpartition(".")[2], "")
