"""The commands of docs/clicks.md train a model near the best possible score, and its exports agree."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import sys

import numpy as np
import pytest

from ps_train.models.clicks.synthetic import auc
from tests.pages.blocks import blocks_of
from tests.support.machine.processes import ROOT, Processes


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_guide_trains_scores_and_exports_a_model_near_the_planted_score(processes: Processes) -> None:
    blocks = blocks_of((ROOT / "docs" / "clicks.md").read_text())
    commands = [block.text for block in blocks if block.language == "bash"]
    last = next(index for index, command in enumerate(commands) if " predict " in command)
    path = {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands[: last + 1]:
        run = processes.command(["bash", "-e", "-c", command], None, path)
        assert run.wait(280) == 0, run.output
    directory = pathlib.Path(processes.directory)
    planted = json.loads((directory / "runs" / "clicks" / "result.json").read_text())["metrics"]["auc"]
    assert 0.82 < planted < 0.8415
    with open(directory / "scored.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24_000
    labels, scores = (np.array([float(row[name]) for row in rows]) for name in ("label", "probability"))
    assert auc(labels, scores) == pytest.approx(planted, abs=2e-3)
    assert (directory / "export" / "1" / "saved_model.pb").exists()
