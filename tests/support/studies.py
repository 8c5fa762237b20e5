"""Studies whose storage is in memory, and executions that are scripts instead of processes."""

from __future__ import annotations

import pytest

from ps_train.commands.tuning.search import Ending, Search
from ps_train.commands.tuning.space import parse_space
from ps_train.commands.tuning.study import Settings, Study

optuna = pytest.importorskip("optuna")

STORAGES = {}
"""The storage of each directory, in memory: a file costs a second for ten trials."""


def settings(path, **changes):
    values = {
        "name": "s",
        "storage": STORAGES.setdefault(path, optuna.storages.InMemoryStorage()),
        "direction": "minimize",
        "sampler": "random",
        "pruner": "none",
        "seed": 1,
        "executions": 1,
        "max_steps": 100,
        "eval_steps": 0,
        "command": {"flags": ["a"]},
    }
    return Settings(**{**values, **changes})


def study_of(path, space=("learning_rate:0..1",), **changes):
    return Study(settings(path, **changes), parse_space(list(space)))


class Scripted:
    """An execution that shows its evaluations, one a look, and then its end."""

    def __init__(self, ending, evaluations=()):
        self.ending, self.left, self.is_stopped = ending, list(evaluations), False

    def poll(self):
        if self.is_stopped:
            return Ending(143, steps=50, cause="its job was ended by SIGTERM")
        return None if self.left else self.ending

    def evaluations(self):
        return [self.left.pop(0)] if self.left else []

    def stop(self):
        self.is_stopped = True

    kill = stop


def run(study, start, trials, looks=1000, **options):
    """Runs a study to its end; returns the (trial, execution) that were started."""
    started = []

    def begin(trial, execution):
        started.append((trial.number, execution))
        return start(trial, execution)

    search = Search(study, begin, trials, **options)
    for _ in range(looks):
        if not search.advance():
            return started
    raise AssertionError(f"the study did not end: {started}")


def done(value, steps=100):
    return Scripted(Ending(0, value, steps))
