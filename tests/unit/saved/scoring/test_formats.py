"""Formats by the names of files."""

from __future__ import annotations

import pytest

from ps_train.saved.scoring.formats import DELIMITERS, FORMATS, format_of_name


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("data/a.parquet", "parquet"), ("a.pq", "parquet"), ("a.tfrecords", "tfrecord"), ("A.CSV", "csv"),
        ("a.csv.gz", "csv"), ("a.tsv", "tsv"), ("a.ndjson", "jsonl"), ("a.json.gz", "jsonl"), ("a.gz", ""),
        ("a.txt", ""), ("csv", "csv"), ("data.csv/part-0", ""), ("s3://b/x.jsonl", "jsonl"),
    ],
)  # fmt: skip
def test_the_last_part_of_the_name_decides(path: str, kind: str) -> None:
    assert format_of_name(path) == kind and (not kind or kind in FORMATS)
    assert set(DELIMITERS) < set(FORMATS)
