"""Tables of numbers, and data by name."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.compat.tf1.contrib import make_contrib

CONTRIB = make_contrib(lambda: None)


def test_tables_of_numbers_are_read(tmp_path):
    (tmp_path / "iris.csv").write_text("2,2,a,b\n6.5,3,1\n5,2.5,0\n")
    base = CONTRIB.learn.datasets.base
    found = base.load_csv_with_header(str(tmp_path / "iris.csv"), np.int32, np.float32)
    assert found.data.tolist() == [[6.5, 3], [5, 2.5]] and found.target.tolist() == [1, 0]
    assert found.target.dtype == np.int32 and "mnist" in CONTRIB.learn.datasets.DATASETS
    with pytest.raises(ValueError, match="'nothing'; use one of boston, dbpedia, iris, mnist"):
        CONTRIB.learn.datasets.load_dataset("nothing")
    with pytest.raises(FileNotFoundError, match="get it from http://x"):
        base.maybe_download("no.csv", str(tmp_path), "http://x")
