"""The format of a file by its name."""

from __future__ import annotations

import pytest

from ps_train.saved.scoring.formats import FORMATS, format_of_name


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("data/part-0.csv", "csv"), ("a.CSV.GZ", "csv"), ("a.tsv.gz", "tsv"), ("a.pq", "parquet"), ("x.json", "jsonl"),
        ("x.ndjson", "jsonl"), ("a.b.tfrecords.gz", "tfrecord"), ("s3://b/x.parquet", "parquet"), ("csv", "csv"),
        ("a.csv/part-0", ""), ("a.gz", ""), ("a.csv.zip", ""), ("a.csv.gz.gz", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_end_of_the_name_tells_the_format(path: str, found: str) -> None:
    assert format_of_name(path) == found and (not found or found in FORMATS)
