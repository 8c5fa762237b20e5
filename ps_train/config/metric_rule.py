"""Metrics as flags name them, and which of two values is better.

    rule = parse_export("best:auc").rule                # MetricRule("auc", True)
    rule.is_better("auc", 0.8, than=0.7)                # True
    parse_early_stop("loss:3")                          # EarlyStop(MetricRule("loss", False), 3)

A metric is better the larger it is, unless its name says that it is a loss or an error.  A sign before the name decides
otherwise: `-cost` is better the smaller it is, and `+error_free` the larger it is.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping

_SMALLER = re.compile(r"loss|error|perplexity|(^|_)(mse|mae|rmse|mape)($|_)", re.IGNORECASE)
_METRIC = r"[+-]?[^\s:+-][^\s:]*"
_EARLY_STOP = re.compile(rf"({_METRIC}):([1-9][0-9]{{0,8}})")
_EXPORT = re.compile(rf"(final|latest|best)(?::({_METRIC}))?")


@dataclasses.dataclass(frozen=True)
class MetricRule:
    """A metric and its direction.

    Attributes:
      name: the metric; "" for the first one of the model.
      larger: True or False if a larger or smaller value is better; None: the name of the metric decides.
    """

    name: str = ""
    larger: bool | None = None

    def select(self, metrics: Mapping[str, float]) -> str:
        """Returns the name of the metric among those of an evaluation; raises KeyError if it is not there."""
        name = self.name or next(iter(metrics), "")
        if name not in metrics:
            raise KeyError(name)
        return name

    def is_better(self, name: str, value: float, than: float | None) -> bool:
        """Returns True if a value of the metric `name` is better than another; None and NaN are worse than any."""
        if math.isnan(value):
            return False
        if than is None or math.isnan(than):
            return True
        larger = not _SMALLER.search(name) if self.larger is None else self.larger
        return value > than if larger else value < than

    def best(self, name: str, values: Iterable[float]) -> float | None:
        """Returns the best of some values of the metric `name`; None if there is none."""
        found: float | None = None
        for value in values:
            if self.is_better(name, value, found):
                found = value
        return found


@dataclasses.dataclass(frozen=True)
class EarlyStop:
    """The value of --early_stop.

    Attributes:
      rule: the metric.
      patience: the number of evaluations without a better value after which the job ends.
    """

    rule: MetricRule
    patience: int

    def reason(self, values: Iterable[tuple[int, float]]) -> str:
        """Returns the reason to stop, given the metric's values by ascending step; "" to go on."""
        best: tuple[int, float] | None = None
        since = 0
        for step, value in values:
            if self.rule.is_better(self.rule.name, value, best[1] if best is not None else None):
                best, since = (step, value), 0
            else:
                since += 1
            if since >= self.patience:
                best_text = f"{best[1]:g} at step {best[0]} is the best" if best is not None else "it is never a number"
                return f"{self.rule.name}: {best_text}, in {since} evaluations up to step {step}"
        return ""


@dataclasses.dataclass(frozen=True)
class ExportChoice:
    """The value of --export.

    Attributes:
      kind: "final", "latest" or "best".
      rule: the metric of "best".
      is_split: the tables are in files of their own.
    """

    kind: str
    rule: MetricRule
    is_split: bool = False


def parse_early_stop(text: str) -> EarlyStop | None:
    """Returns the meaning of `metric:patience`; None if it is not of this form."""
    match = _EARLY_STOP.fullmatch(text)
    return EarlyStop(_rule(match[1]), int(match[2])) if match else None


def parse_export(text: str) -> ExportChoice | None:
    """Returns the meaning of final, latest, best or best:metric, or of one of them and `,split`; None otherwise."""
    text, comma, rest = text.partition(",")
    if text == "split" and not comma:
        text, rest = "final", text
    if rest not in ("", "split") or (comma and not rest):
        return None
    match = _EXPORT.fullmatch(text)
    if not match or (match[2] and match[1] != "best"):
        return None
    return ExportChoice(match[1], _rule(match[2] or ""), rest == "split")


def _rule(text: str) -> MetricRule:
    return MetricRule(text.lstrip("+-"), {"+": True, "-": False}.get(text[:1]))
