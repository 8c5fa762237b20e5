"""Jobs on files of the Criteo format: without any data of one's own, and with lines that are broken."""

from __future__ import annotations

import json
import pathlib

import pytest

from ps_train.models.clicks.synthetic import best_scores, write_files
from tests.support.machine.processes import ROOT, Processes


@pytest.mark.timeout(300)
@pytest.mark.long
def test_wide_and_deep_makes_its_data_and_ends_near_the_planted_models_own_auc(processes: Processes) -> None:
    directory, cache = processes.directory / "model", processes.directory / "cache"
    preset = ROOT / "flags" / "criteo.flags"
    arguments = [f"--flagfile={preset}", f"--model_dir={directory}", "--export_dir=export"]
    run = processes.run(*arguments, env={"XDG_CACHE_HOME": str(cache)})
    assert run.wait(280) == 0, run.output
    metrics = json.loads((directory / "result.json").read_text())["metrics"]
    planted = best_scores(str(cache / "ps_train" / "criteo-300000"))
    assert planted["auc"] - 0.005 <= metrics["auc"] <= planted["auc"] + 0.001, run.output
    assert metrics["log_loss"] <= planted["log_loss"] + 0.01 and 0.8 < metrics["calibration"] < 1.2
    assert f"auc {metrics['auc']:.4f}" in run.output
    assert run.output.count("making 300000 lines") == 1
    assert f"exported {processes.directory}/export/1" in run.output
    assert pathlib.Path(processes.directory, "export", "1", "saved_model.pb").exists()


@pytest.mark.long
def test_more_malformed_lines_than_allowed_end_the_job_and_no_more_do_not(processes: Processes) -> None:
    data = processes.directory / "data"
    write_files(str(data), lines=2_000)
    train = data / "train-00000.txt"
    train.write_text(train.read_text() + "1\tno line of Criteo's\n")
    arguments = [
        "--model=ps_train.models.criteo:LogisticRegression",
        f"--data_dir={data}",
        "--num_workers=1",
        "--max_steps=200",
    ]
    refused = processes.run(*arguments, "--max_bad_lines=0", "--model_dir=refused")
    assert refused.wait(90) == 2, refused.output
    said = (
        "2 columns instead of 40. That is malformed line number 1, and max_bad_lines=0: "
        "correct the data or raise max_bad_lines."
    )
    assert said in refused.output
    allowed = processes.run(*arguments, "--max_bad_lines=1", "--model_dir=allowed")
    assert allowed.wait(90) == 0, allowed.output
    assert "2 columns instead of 40; the line is skipped" in allowed.output and "test auc 0." in allowed.output
    assert pathlib.Path(processes.directory, "allowed", "result.json").exists()
