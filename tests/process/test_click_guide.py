"""The commands of docs/CLICKS.md run one after the other, and end as the page says."""

from __future__ import annotations

import csv
import json
import pathlib
import re
import sys

import numpy as np
import pytest

from ps_train.models.clicks.synthetic import auc
from tests.support.machine.processes import ROOT, Processes


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_guide_trains_scores_and_exports_a_model_near_the_planted_score(processes: Processes) -> None:
    page = (ROOT / "docs" / "CLICKS.md").read_text()
    commands = re.findall(r"^```\n(python -m [^\n]*)\n```$", page, re.MULTILINE)
    assert [command.split()[2] for command in commands] == ["ps_train.models.clicks", "ps_train", "ps_train"]
    for command in commands:
        run = processes.command(["bash", "-c", command.replace("python", sys.executable, 1)])
        assert run.wait(280) == 0, run.output
    directory = pathlib.Path(processes.directory)
    planted = json.loads((directory / "runs" / "clicks" / "result.json").read_text())["metrics"]["auc"]
    assert 0.82 < planted < 0.8391
    with open(directory / "scored.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20_000
    labels, scores = (np.array([float(row[name]) for row in rows]) for name in ("label", "probability"))
    assert auc(labels, scores) == pytest.approx(planted, abs=2e-3)
    assert (directory / "export" / "1" / "saved_model.pb").exists()
