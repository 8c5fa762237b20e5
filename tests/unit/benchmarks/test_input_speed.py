"""Both sides of the input benchmark read the same rows, and its report judges the ratio of the rates."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from benchmarks.input_speed import batches, measure, report, steps_beside
from benchmarks.readers import READERS, rows_of

COUNT = 4000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("rows")
    for name, reader in READERS.items():
        (folder / name).mkdir()
        reader.write(folder / name, rows_of(COUNT))
    return folder


def read(name: str, side: str, folder: pathlib.Path) -> np.ndarray:
    """All rows of an epoch as [label, integers, categories], sorted."""
    found = []
    with tf.Graph().as_default(), v1.Session() as session:
        (features, labels), (initializer, feeds) = batches(name, side, folder / name, epochs=1, shuffled=100)
        session.run(initializer, feeds)
        while True:
            try:
                got, label = session.run((features, labels))
            except tf.errors.OutOfRangeError:
                break
            found.append(np.column_stack([label, got["integers"], got["categories"]]))
    whole = np.concatenate(found)
    return whole[np.lexsort(whole.T)]


@pytest.mark.usual(3)
@pytest.mark.parametrize("name", READERS)
def test_both_sides_read_every_row_once(name: str, written: pathlib.Path) -> None:
    rows = rows_of(COUNT)
    whole = np.column_stack([rows.labels, rows.integers.astype(np.float32), rows.categories]).astype(np.float64)
    expected = whole[np.lexsort(whole.T)]
    for side in ("ours", "plain"):
        assert np.array_equal(read(name, side, written), expected), side


def test_a_measurement_counts_rows_and_seconds(written: pathlib.Path) -> None:
    found = measure("Arrays", "ours", written / "Arrays", secs=0.05)
    assert found["rows"] >= 4 and found["cpu_secs"] >= 0.05 and found["secs"] > 0


def test_a_training_loop_beside_a_reader_is_measured(written: pathlib.Path) -> None:
    found = steps_beside("Parquet", written / "Parquet", secs=0.1)
    assert found["steps_per_sec"] > 1 and found["p99_ms"] > 0


def test_a_report_gives_the_ratio_of_medians_and_says_where_it_is_too_low() -> None:
    def runs(*rates: float) -> list[dict[str, float]]:
        return [{"rows": 1000 * rate, "cpu_secs": 1.0, "secs": 0.5} for rate in rates]

    machine = {"cpu": "c", "cores": 2, "memory_gib": 1, "kernel": "6", "python": "3", "tensorflow": "2"}
    readers = {
        "fast": {"ours": runs(300, 200, 100), "plain": runs(100)},
        "slow": {"ours": runs(89), "plain": runs(100)},
    }
    record = {
        "date": "2000-01-01",
        "machine": machine,
        "load_before": 1,
        "load_after": 2,
        "secs": 1,
        "readers": readers,
        "steps_beside": {
            name: [{"steps_per_sec": rate, "p99_ms": 4.0}] for name, rate in (("", 500.0), ("fast", 400.0))
        },
    }
    lines = report(record).splitlines()
    assert any("fast" in line and "2.00" in line and "yes" in line and "2.0" in line for line in lines)
    assert any("slow" in line and "0.89" in line and "NO" in line for line in lines)
    assert any("fast" in line and "0.80" in line and "4.00" in line for line in lines)
    assert "load average before and after: 1, 2" in report(record)
