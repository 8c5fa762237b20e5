"""The trials that run, as a state machine without processes.

    search = Search(study, start, trials=50, parallel=2)
    while search.advance():
        time.sleep(0.2)

`start` starts an execution of a trial, or lets it go on.  The machine decides what its end means:

- an execution that is done gives the trial a value, and the next execution begins, or the trial is complete;
- one that the pruner stops ends its trial as pruned;
- one that a signal from outside has ended goes on once from its checkpoint, then its trial fails;
- one with exit code 2 ends the study: every trial would repeat the mistake;
- any other end fails the trial, and the study goes on.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from ps_train.base.errors import EXIT_CONFIG, EXIT_DONE, ConfigError
from ps_train.commands.tuning.study import Study, TrialRecord

_SECOND_CHANCES = 1
_FIRST_SIGNAL = 128


@dataclasses.dataclass(frozen=True)
class Ending:
    """The end of an execution.

    Attributes:
      code: exit code of its job; negative if a signal ended it.
      value: value of the objective; None without one.
      steps: the steps that it made.
      cause: the cause of a failure in one line.
    """

    code: int
    value: float | None = None
    steps: int = 0
    cause: str = ""


class Execution(Protocol):
    """A job of a trial."""

    def poll(self) -> Ending | None:
        """Returns its end, or None while it runs."""

    def evaluations(self) -> Sequence[tuple[int, float]]:
        """Returns (step, value of the objective) of its new evaluations."""

    def stop(self) -> None:
        """Stops it as Ctrl-C would; it saves a checkpoint."""

    def kill(self) -> None:
        """Kills its processes."""


@dataclasses.dataclass
class _Running:
    trial: TrialRecord
    execution: Execution
    is_pruned: bool = False
    chances: int = _SECOND_CHANCES


class Search:
    """The trials of a study that run in this process.

    Args:
      start: starts an execution, given the trial and the number of the execution.
      trials: the number of trials of all tuners at which none begins.
      parallel: trials at a time.
      ended: called with the number of each trial that has ended.
    """

    def __init__(
        self,
        study: Study,
        start: Callable[[TrialRecord, int], Execution],
        trials: int,
        parallel: int = 1,
        ended: Callable[[int], None] = lambda number: None,
    ) -> None:
        self._study, self._start, self._parallel, self._ended = study, start, parallel, ended
        self._trials, self._has_more = study.size(trials), True
        self._running: list[_Running] = []

    @property
    def trials(self) -> int:
        """The number of trials at which the study is over."""
        return self._trials

    @property
    def running(self) -> int:
        """The number of trials that run."""
        return len(self._running)

    def advance(self) -> bool:
        """Looks at each execution once and starts what is due; returns False when the study is over.

        Raises:
          ConfigError: an execution ended with exit code 2; others may still run.
        """
        for one in list(self._running):
            self._look(one)
        while self._has_more and len(self._running) < self._parallel:
            trial = self._study.next_trial([one.trial.number for one in self._running], self._trials)
            if trial is None:
                self._has_more = False  # not asked at each look, because that would read the whole storage
            elif len(trial.values) >= self._study.settings.executions:  # the tuner ended in this very moment
                trial.complete()
                self._ended(trial.number)
            else:
                self._running.append(_Running(trial, self._start(trial, len(trial.values))))
        return bool(self._running)

    def stop(self) -> None:
        """Stops all executions; their trials go on in a later process."""
        for one in self._running:
            one.execution.stop()

    def kill(self) -> None:
        """Kills all executions."""
        for one in self._running:
            one.execution.kill()

    def have_ended(self) -> bool:
        """Returns True if no execution runs; after `stop`."""
        endings = [one.execution.poll() for one in self._running]  # of all: a late one is killed there
        return None not in endings

    def _look(self, one: _Running) -> None:
        trial = one.trial
        for step, value in one.execution.evaluations():
            if not one.is_pruned and trial.add_evaluation(step, value):
                one.is_pruned = True
                one.execution.stop()
        ending = one.execution.poll()
        if ending is None:
            return
        if ending.code == EXIT_CONFIG:
            self._end(one)
            trial.fail(ending.cause, ending.steps, counts=False)
            raise ConfigError(f"trial {trial.number}: {ending.cause}")
        if one.is_pruned:
            self._end(one)
            trial.prune(ending.steps)
        elif ending.code == EXIT_DONE:
            self._add(one, ending)
            return
        elif (ending.code < 0 or ending.code > _FIRST_SIGNAL) and one.chances:
            one.chances -= 1
            one.execution = self._start(trial, len(trial.values))
            return
        else:
            self._end(one)
            trial.fail(ending.cause, ending.steps)
        self._ended(trial.number)

    def _add(self, one: _Running, ending: Ending) -> None:
        """Takes in the value of an execution that is done."""
        trial = one.trial
        if ending.value is None or not math.isfinite(ending.value):
            self._end(one)
            trial.fail(ending.cause or f"the objective is {ending.value}, which is not finite", ending.steps)
        elif trial.add_execution(ending.value, ending.steps):
            self._end(one)
            trial.prune(0)
        elif len(trial.values) < self._study.settings.executions:
            one.execution, one.chances = self._start(trial, len(trial.values)), _SECOND_CHANCES
            return
        else:
            self._end(one)
            trial.complete()
        self._ended(trial.number)

    def _end(self, one: _Running) -> None:
        self._running.remove(one)
