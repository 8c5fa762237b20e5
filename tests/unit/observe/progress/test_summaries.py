"""The model's summaries are fetched only when they are due, and written under the names that the user gave."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ps_train.config.job import Job
from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.observe.progress.progress import EventFile
from ps_train.observe.progress.summaries import SummaryHook, text_of


class Run:
    """A chief's hook; the test says which step each call reaches."""

    def __init__(self, directory: pathlib.Path, begin: int = 0, **fields: Any) -> None:
        nothing = tf.constant(0)
        job = Job(**fields)
        self.expected = begin
        with tf.Graph().as_default(), v1.name_scope("model"), v1.Session() as session:
            made = [v1.summary.scalar("deep/x", 2.0), v1.summary.scalar("model/y", 3.0, family="kind")]
            self._texts = session.run(made)
        self.hook = SummaryHook(made, job, nothing, lambda: self.expected, EventFile(str(directory)))
        self.hook.resumed(begin)
        self.fetched: list[int] = []

    def call(self, expected: int, reached: int | None = None) -> None:
        self.expected = expected
        step = expected if reached is None else reached
        wanted = self.hook.before_run(None).fetches["summaries"]
        results = {"step": step, "summaries": self._texts if wanted else []}
        self.fetched += [step] if wanted else []
        self.hook.after_run(None, types.SimpleNamespace(results=results))


def scalars(directory: pathlib.Path) -> dict[str, list[int]]:
    events = EventAccumulator(str(directory)).Reload()
    return {tag: [event.step for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_they_are_due_at_every_multiple_and_at_the_last_step(tmp_path: pathlib.Path) -> None:
    run = Run(tmp_path, summary_steps=10, max_steps=34)
    for step in (1, 9, 10, 11, 19, 25, 29, 30, 34, 34):
        run.call(step)
    assert run.fetched == [10, 25, 30, 34]
    assert scalars(tmp_path) == {"deep/x": run.fetched, "kind/kind/model/y": run.fetched}


def test_steps_that_other_workers_make_count(tmp_path: pathlib.Path) -> None:
    run = Run(tmp_path, summary_steps=10, max_steps=100)
    run.call(10, reached=21)
    run.call(25)
    run.call(31)
    assert run.fetched == [21, 31]


def test_a_resumed_run_begins_at_its_step(tmp_path: pathlib.Path) -> None:
    run = Run(tmp_path, begin=57, summary_steps=10, max_steps=100)
    run.call(58)
    run.call(60)
    assert run.fetched == [60]


def test_the_text_holds_flags_and_plan() -> None:
    plan = make_plan([VariableSpec("deep/w", (3, 1), "float32", 4)], 1)
    text = text_of(Job(max_steps=77, worker_hosts=("a:1", "b:1"), ps_hosts=("c:1",)), plan)
    for part in ("    --max_steps=77", "    --worker_hosts=a:1,b:1", "    --update=async", "deep/w  3x1 float32  12 B"):
        assert part in text
    assert "None" not in text


@pytest.mark.parametrize("values", [{"test/accuracy": 0.5}])
def test_numbers_are_written_beside_the_progress(tmp_path: pathlib.Path, values: dict[str, float]) -> None:
    EventFile(str(tmp_path)).add_values(values, 12)
    assert scalars(tmp_path) == {"test/accuracy": [12]}
