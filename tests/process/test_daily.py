"""The example of the daily loop runs as its page says: two days, a delta, a reader, predictions, a comparison."""

from __future__ import annotations

import filecmp
import json
import pathlib
import re
import sys

import numpy as np
import pytest

from tests.support.machine.processes import ROOT

pq = pytest.importorskip("pyarrow.parquet")

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Share of pairs whose positive one has the higher score."""
    positive, negative = scores[labels > 0.5], np.sort(scores[labels < 0.5])
    below, upto = np.searchsorted(negative, positive), np.searchsorted(negative, positive, "right")
    return float((below + upto).mean() / 2 / len(negative))


def same_files(one: pathlib.Path, other: pathlib.Path) -> bool:
    names = sorted(str(path.relative_to(one)) for path in one.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(other)) for path in other.rglob("*") if path.is_file())
    return all(filecmp.cmp(one / name, other / name, shallow=False) for name in names)


def test_two_days(processes, tmp_path):
    run = processes.command(
        ["bash", str(pathlib.Path(ROOT) / "examples" / "daily" / "run.sh"), str(tmp_path)],
        env={"PYTHON": sys.executable},
    )
    assert run.wait(350) == 0, run.output
    results = [json.loads((tmp_path / "runs" / name / "result.json").read_text()) for name in ("day1", "day2", "later")]
    first, second, later = (result["metrics"]["auc"] for result in results)
    assert first > 0.75 and second > first + 0.03 and later > second - 0.01
    assert results[2]["global_step"] > results[1]["global_step"]
    report = (tmp_path / "runs" / "day2" / "warm_start.txt").read_text()
    assert re.search(r"remapped +users +users +1000 of", report) and re.search(r"fresh +devices ", report)
    assert re.search(r"remapped +ads +ads +301 of 401", report)

    scored = pq.read_table(tmp_path / "scored.parquet")
    data = pq.read_table(tmp_path / "data" / "day2" / "test.parquet")
    assert scored.select(data.column_names).equals(data)
    assert auc(data["click"].to_numpy(), scored["probabilities"].to_numpy()) == pytest.approx(later, abs=2e-3)
    assert same_files(tmp_path / "export" / "3", tmp_path / "copy" / "3")

    steps = [int(number) for number in re.findall(r"^step (\d+): \[", run.output, re.MULTILINE)]
    assert steps == [results[1]["global_step"], results[2]["global_step"]], "the reader has both versions"
    (line,) = re.findall(r"^ *\d+ +auc +([\d.]+) +([\d.]+) .*all rows", run.output, re.MULTILINE)
    assert float(line[1]) == pytest.approx(later, abs=2e-3) and float(line[0]) < float(line[1]) - 0.05
