"""The progress bar of a fit in a notebook, with the loss and the metrics.

    bar = notebook_bar()                     # None outside of a notebook, and without tqdm
    is_shown = bar.take("step 46/2000  loss 0.2835  20 global steps/s  640 examples/s  ETA 1:38")

tqdm decides between a widget and plain text.  The lines of the job are the source; the newest metrics of an evaluator
come from the job's status page.
"""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
import warnings
from collections.abc import Callable
from typing import Any

from ps_train.base.console import Progress

LOG_SECS = 0.5
"""Seconds between two moves of the bar."""

_ASK_SECS, _ANSWER_SECS = 2.0, 0.5
_STATUS = re.compile(r"status +(http://\S+/)")
_TEST = re.compile(r"test (\S+ \S+(?:  \S+ \S+)*)")
_RATE = "examples/s"


def notebook_bar() -> ProgressBar | None:
    """Returns the bar; None if this process is not the kernel of a notebook, or has no tqdm."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm says that it has found no ipywidgets, and shows plain text
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return ProgressBar(tqdm)


class ProgressBar:
    """The bar, which appears with the first progress line.

    Args:
      make: makes a bar of tqdm.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._bar: Any = None
        self._page, self._asked = "", 0.0
        self._values: dict[str, float] = {}
        self._metrics: dict[str, float] = {}

    def take(self, line: str) -> bool:
        """Takes in a line of the job; returns True if the bar shows it, so that it need not be printed."""
        progress = Progress.read(line)
        if progress is not None:
            self._show(progress)
            return True
        if found := _STATUS.fullmatch(line):
            self._page = found[1]
        elif found := _TEST.fullmatch(line):
            self._metrics.update(_metrics_of(found[1]))
            self._refresh({})
        return False

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()

    def _show(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = self._make(total=progress.max_steps, initial=progress.step, unit="step", dynamic_ncols=True)
        self._bar.n = progress.step  # less than before after a recovery
        if self._page and time.monotonic() - self._asked > _ASK_SECS:
            self._asked = time.monotonic()
            self._metrics.update(_newest_metrics(self._page))
        loss = {} if progress.loss is None else {"loss": progress.loss}
        self._refresh({**loss, _RATE: progress.examples_per_sec})

    def _refresh(self, values: dict[str, float]) -> None:
        if self._bar is None:
            return
        self._values.update(values)
        numbers = {**self._values, **self._metrics}
        self._bar.set_postfix({name: f"{value:.{0 if name == _RATE else 4}f}" for name, value in numbers.items()})


def _metrics_of(text: str) -> dict[str, float]:
    """Returns the metrics of a line such as `accuracy 0.9417  loss 0.1873`."""
    found = {}
    for part in text.split("  "):
        name, _, value = part.rpartition(" ")
        try:
            found[name] = float(value)
        except ValueError:
            return {}
    return found


def _newest_metrics(page: str) -> dict[str, float]:
    try:
        with urllib.request.urlopen(f"{page}api/status", timeout=_ANSWER_SECS) as answer:
            found = json.load(answer)["metrics"]
    except (OSError, ValueError, KeyError):
        return {}
    return {f"eval {name}" if name == "loss" else name: value for name, value in found.items() if value is not None}
