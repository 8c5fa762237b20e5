"""The reports of a study: lines, study.json, and a page with Optuna's pictures that needs no network."""

from __future__ import annotations

import json
import re

import pytest

from ps_train.commands.tuning.executions import Jobs
from ps_train.commands.tuning.reports import command_of, progress_line, summary_of, table, write_page, write_summary
from ps_train.commands.tuning.search import Ending
from tests.unit.commands.tuning.test_search import Scripted, done, run, study_of

pytest.importorskip("plotly")


@pytest.fixture
def study(tmp_path):
    study = study_of(tmp_path, ["learning_rate:0..1", "optimizer:adam,sgd"], executions=2, direction="maximize")

    def start(trial, execution):
        folder = tmp_path / "trials" / f"{trial.number:04}" / str(execution) / "model"
        folder.mkdir(parents=True)
        (folder.parent / "output.log").write_text("")
        if trial.number == 2:
            return Scripted(Ending(1, cause="<NaN>"))
        (folder / "report.html").write_text("")
        return done(0.5 + trial.number / 100 + execution / 10)

    run(study, start, trials=8)
    return study


def test_the_lines_show_the_best_trials_first(study, tmp_path):
    lines = table(study.best(5), "auc")
    assert [line.split()[0] for line in lines] == ["trial", "7", "6", "5", "4", "3"]
    assert lines[1].split()[1:4] == ["0.62", "0.0707", "200"]
    assert progress_line(study.finished(), 9, study.best(1), "auc", 61.0) == (
        "trial 8/9  best auc 0.62 (trial 7)  1 failed  ETA 1:01"
    )
    jobs = Jobs(str(tmp_path), "auc", ("--model=net:Net", "--model_arg=a=b c"), seed=4)
    command = command_of(jobs, study.best(1)[0], "/best")
    assert command.startswith("python -m ps_train --model=net:Net '--model_arg=a=b c' --learning_rate=0.")
    assert command.endswith("--seed=4 --model_dir=/best")


def test_the_page_has_the_pictures_and_links_each_report(study, tmp_path):
    write_page(study, str(tmp_path), "auc", "python -m ps_train")
    page = (tmp_path / "study.html").read_text()
    assert page.count("Plotly.newPlot") == 3 and "<h2>Importance</h2>" in page
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page)
    assert re.findall(r'href="(trials/000[12]/[^"]+)"', page) == [
        "trials/0001/0/model/report.html",
        "trials/0001/1/model/report.html",
        "trials/0002/0/output.log",
    ]
    assert "failed: &lt;NaN&gt;" in page
    assert "<title>Study s: auc 0.62 (trial 7), 8 trials · ps_train</title>" in page
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page


def test_the_summary_has_every_trial(study, tmp_path):
    write_summary(str(tmp_path), {**summary_of(study, "auc", "python"), "storage": ""})
    found = json.loads((tmp_path / "study.json").read_text())
    assert found["best"] == 7 and len(found["trials"]) == 8 and found["trials"][2]["cause"] == "<NaN>"
    assert set(found["trials"][7]["params"]) == {"learning_rate", "optimizer"}


def test_a_page_without_a_complete_trial_says_so(tmp_path):
    write_page(study_of(tmp_path), str(tmp_path), "auc", "")
    assert "It needs 1 complete trials." in (tmp_path / "study.html").read_text()
