"""The table of a fit and its picture, from a report as the chief writes it."""

from __future__ import annotations

import sys

import pytest

from ps_train.commands.launch.history import history_of, plot_history
from ps_train.observe.status.display import Displays
from ps_train.observe.status.page import page, read_report


def point(step, loss):
    return {"time": 1.0, "step": step, "loss": loss, "steps_per_sec": 2.0, "examples_per_sec": 64.0, "workers": {}}


POINTS = [point(100, 0.5), point(200, float("nan")), point(300, 0.3)]
EVALUATIONS = [{"step": step, "metrics": {"loss": 0.4, "auc": 0.7}} for step in (50, 200, 250)]
REPORT = page(Displays(), {"state": "</script>"}, {"points": POINTS, "evaluations": EVALUATIONS})


def test_the_table_has_a_row_for_each_point_and_evaluation_of_this_call():
    history = history_of(REPORT, 300, {"auc": 0.9})
    assert history == {
        "step": [100, 200, 250, 300],
        "loss": [0.5, None, None, 0.3],
        "examples_per_sec": [64.0, 64.0, None, 64.0],
        "steps_per_sec": [2.0, 2.0, None, 2.0],
        "eval_loss": [None, 0.4, 0.4, None],
        "auc": [None, 0.7, 0.7, 0.9],
    }
    assert read_report(REPORT)[0] == {"state": "</script>"}


@pytest.mark.parametrize("report", ["", "<html>", page(Displays())])
def test_without_a_report_the_table_has_the_last_metrics(report):
    assert history_of(report, 7, {"auc": 0.9}) == {
        "step": [7], "loss": [None], "examples_per_sec": [None], "steps_per_sec": [None], "auc": [0.9]
    }  # fmt: skip
    assert history_of(report, 7, {})["step"] == []


def test_the_picture_has_loss_and_metrics():
    pytest.importorskip("matplotlib").use("agg")
    figure = plot_history(history_of(REPORT, 300, {"auc": 0.9}))
    loss, metrics = figure.axes
    found = {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in (*loss.lines, *metrics.lines)
    }
    assert found == {
        "loss": ([100, 300], [0.5, 0.3]),
        "eval_loss": ([200, 250], [0.4, 0.4]),
        "auc": ([200, 250, 300], [0.7, 0.7, 0.9]),
    }
    assert len(plot_history(history_of("", 7, {})).axes) == 1


def test_without_matplotlib_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert plot_history({}) is None
    assert capsys.readouterr().out == "plot() needs matplotlib: pip install matplotlib\n"
