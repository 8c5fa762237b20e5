"""An Estimator that only writes down its calls, and a clock that tests move."""

from __future__ import annotations

import heapq
import itertools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from ps_train.compat.estimator.spec.exporter import Exporter
from ps_train.compat.estimator.spec.run_config import RunConfig


class Clock:
    """A clock that stands still but for `sleep`; `at` makes something happen at a time."""

    def __init__(self) -> None:
        self.time, self.sleeps = 0.0, 0
        self._events: list[tuple[float, int, Callable[[], Any]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self.time

    def at(self, secs: float, act: Callable[[], Any]) -> None:
        heapq.heappush(self._events, (secs, next(self._order), act))

    def sleep(self, secs: float) -> None:
        assert secs > 0
        self.sleeps += 1
        assert self.sleeps < 100_000, "nothing ends this loop"
        until = self.time + secs
        while self._events and self._events[0][0] <= until:
            self.time, _, act = heapq.heappop(self._events)
            act()
        self.time = until


class ScriptedEstimator:
    """An Estimator whose training writes the checkpoints of given steps.

    Attributes:
      calls: names and arguments of the calls of train() and evaluate().
      evaluated: the steps of the checkpoints that were evaluated.
      before_save: called with the step before each checkpoint of a training.
      result: None, or the result of evaluate().
    """

    def __init__(self, model_dir: pathlib.Path, steps: Sequence[int] = (), config: RunConfig | None = None) -> None:
        self.model_dir = str(model_dir)
        self.config = (config or RunConfig()).replace(model_dir=self.model_dir)
        self.steps, self.newest = list(steps), -1
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.evaluated: list[int] = []
        self.before_save: Callable[[int], Any] = lambda step: None
        self.result: Any = None

    def latest_checkpoint(self) -> str | None:
        return self.path(self.newest) if self.newest >= 0 else None

    def path(self, step: int) -> str:
        return os.path.join(self.model_dir, f"model.ckpt-{step}")

    def save(self, step: int) -> None:
        self.newest = step

    def train(self, **given: Any) -> ScriptedEstimator:
        self.calls.append(("train", given))
        listeners = given.get("saving_listeners") or ()
        for listener in listeners:
            listener.begin()
        for step in self.steps:
            self.before_save(step)
            self.save(step)
            for listener in listeners:
                listener.after_save(None, step)
        for listener in listeners:
            listener.end(None, self.newest)
        return self

    def evaluate(self, **given: Any) -> Any:
        self.calls.append(("evaluate", given))
        self.evaluated.append(int(given["checkpoint_path"].rpartition("-")[2]))
        return {"loss": 0.5, "global_step": self.evaluated[-1]} if self.result is None else self.result

    def export_saved_model(self, *given: Any, **named: Any) -> str:
        raise AssertionError("exporters of these tests do not export")

    def given(self, name: str) -> list[dict[str, Any]]:
        """The arguments of all calls of a method."""
        return [given for called, given in self.calls if called == name]


class RecordingExporter(Exporter):
    """An exporter that writes down what it is given; it returns the number of the call."""

    def __init__(self, name: str = "own") -> None:
        self._name = name
        self.exports: list[dict[str, Any]] = []

    @property
    def name(self) -> str:
        return self._name

    def export(self, **given: Any) -> Any:  # type: ignore[override]
        self.exports.append(given)
        return len(self.exports)

    def steps(self, is_final: bool) -> list[int]:
        """The steps of the exports that are final, or are not."""
        found = [given for given in self.exports if given["is_the_final_export"] == is_final]
        return [given["eval_result"]["global_step"] for given in found]
