"""The history of a fit: a table of loss, speed and metrics by step, from the report of the job, and its picture.

history = history_of(text_of_report, 2000, {"accuracy": 0.97})
history["step"], history["loss"], history["accuracy"]      # lists of one length, None where nothing was measured
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ps_train.observe.status.page import read_report

_COLUMNS = ("step", "loss", "examples_per_sec", "steps_per_sec")
_EVAL_LOSS = "eval_loss"


def history_of(report: str, last_step: int, metrics: Mapping[str, float]) -> dict[str, list[Any]]:
    """Returns the table, column to list; all lists have one length, and None where a row has no value.

    Args:
      report: the text of `report.html`.
      last_step: the last global step.
      metrics: metrics of the test split at this step.
    """
    try:
        _, found = read_report(report)
        points, evaluations = found["points"], found["evaluations"]
    except (ValueError, KeyError):  # the disk was full
        points, evaluations = [], []
    rows: list[dict[str, Any]] = [{name: point.get(name) for name in _COLUMNS} for point in points]
    first = rows[0]["step"] if rows else last_step
    for one in evaluations:
        if one["step"] >= first:  # not of an earlier call
            _add(rows, one["step"], {_EVAL_LOSS if n == "loss" else n: v for n, v in one["metrics"].items()})
    _add(rows, last_step, metrics)
    names = dict.fromkeys([*_COLUMNS, *(name for row in rows for name in row)])
    return {name: [row.get(name) for row in rows] for name in names}


def _add(rows: list[dict[str, Any]], step: int, values: Mapping[str, Any]) -> None:
    """Adds values to the last row of a step, or a row at its place."""
    if not values:
        return
    same = [row for row in rows if row["step"] == step]
    if same:
        same[-1].update(values)
        return
    place = next((index for index, row in enumerate(rows) if row["step"] > step), len(rows))
    rows.insert(place, {"step": step, **values})


def plot_history(history: Mapping[str, list[Any]]) -> Any:
    """Returns a figure of matplotlib with the loss and the metrics by step; prints a line without matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError:
        print("plot() needs matplotlib: pip install matplotlib")
        return None
    metrics = [name for name in history if name not in (*_COLUMNS, _EVAL_LOSS)]
    figure, axes = pyplot.subplots(1, 2 if metrics else 1, figsize=(10 if metrics else 5, 3.5), squeeze=False)
    pyplot.close(figure)  # a notebook shows the returned figure, and would show an open one again
    for axis, names in zip(axes[0], [["loss", _EVAL_LOSS], metrics], strict=False):
        for name in names:
            steps, values = _measured(history.get("step", []), history.get(name, []))
            if steps:
                axis.plot(steps, values, marker="o" if len(steps) < 20 else None, label=name)
        axis.set_xlabel("step")
        if axis.lines:
            axis.legend()
    figure.tight_layout()
    return figure


def _measured(steps: list[Any], values: list[Any]) -> tuple[list[int], list[float]]:
    pairs = [(s, v) for s, v in zip(steps, values, strict=False) if v is not None and math.isfinite(v)]
    return [step for step, _ in pairs], [value for _, value in pairs]
