"""Optuna's study: samplers and pruners by name, and what a trial remembers.

    study = Study(settings, space, functions=[])
    trial = study.next_trial([], trials=50) # an unfinished one of an earlier process first
    trial.flags, trial.values               # its flags, and the values of its finished executions
    trial.add_execution(0.81, steps=500)
    trial.complete()

All state is in Optuna's storage, which the tuners of several machines may share: each trial has the mark of its tuner,
and no other one goes on with it.  A proposal depends on the seed and on the trials before it, so a study that was
interrupted proposes what it would have proposed.  Optuna is imported here, and only here and in `reports.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import os
import re
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ps_train.base.errors import ConfigError, cut, nearest, one_line
from ps_train.base.extras import install
from ps_train.commands.tuning.space import Space, flag_of

SAMPLERS = ("tpe", "random", "cmaes", "grid")
PRUNERS = ("none", "median", "hyperband")
MAXIMIZE, MINIMIZE = "maximize", "minimize"

_FLAGS, _VALUES, _STEPS, _SPREAD, _CAUSE = "flags", "values", "steps", "spread", "cause"
_UNCOUNTED = "does_not_count"
_COMMAND, _TUNER = "command", "tuner"


def import_optuna() -> Any:
    """Returns the module; raises ConfigError if it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise ConfigError(f"tune needs Optuna, which cannot be imported ({error}): {install('tune')}.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def check_name(flag: str, name: str, known: Sequence[str]) -> None:
    """Raises ConfigError, with the nearest name, if the value of a flag is not one of the known names."""
    if name not in known:
        raise ConfigError(f"--{flag}={name} is not known: {nearest(name, known)}use one of {', '.join(known)}.")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a study.

    Attributes:
      name: name of the study in its storage.
      storage: URL of the storage, or one of Optuna's storages.
      direction: MAXIMIZE or MINIMIZE.
      sampler: one of SAMPLERS.
      pruner: one of PRUNERS.
      seed: seed of the proposals.
      executions: jobs of a trial.
      max_steps: steps of a job.
      eval_steps: steps between two evaluations; 0 for none.
      command: what makes the values of two trials comparable, for JSON.
      tuner: the mark of this process and of those that go on in its place, as "HOST:DIRECTORY NUMBER".
    """

    name: str
    storage: Any
    direction: str
    sampler: str
    pruner: str
    seed: int
    executions: int
    max_steps: int
    eval_steps: int
    command: Mapping[str, Any]
    tuner: str = ""


@dataclasses.dataclass(frozen=True)
class TunedTrial:
    """A trial of a study that has ended.

    Attributes:
      state: "complete", "pruned" or "failed".
      value: mean of the objective over its executions; the last intermediate value of a pruned trial; None without one.
      spread: the standard deviation over its executions; None unless it is complete.
      steps: the steps that its jobs made.
      params: the values that Optuna chose.
      flags: the same as flags of a job.
      cause: the cause of a failure; "" without one.
    """

    number: int
    state: str
    value: float | None
    spread: float | None
    steps: int
    params: Mapping[str, Any]
    flags: Sequence[str]
    cause: str


class TrialRecord:
    """A trial that runs, as the storage remembers it."""

    def __init__(self, study: Study, trial: Any) -> None:
        self._study, self._trial = study, trial
        attributes = trial.user_attrs
        self.number: int = trial.number
        self.flags: tuple[str, ...] = tuple(attributes.get(_FLAGS, ()))
        self.values: list[float] = list(attributes.get(_VALUES, ()))
        self._steps: list[int] = list(attributes.get(_STEPS, ()))[: len(self.values)]  # a tuner may die in between
        self._reported: set[int] = set()

    def add_execution(self, value: float, steps: int) -> bool:
        """Remembers a finished execution; returns True if the pruner ends the trial here."""
        self.values.append(value)
        self._steps.append(steps)
        self._trial.set_user_attr(_STEPS, self._steps)
        self._trial.set_user_attr(_VALUES, self.values)
        settings = self._study.settings
        return self._report(len(self.values) * settings.max_steps, statistics.fmean(self.values)) and (
            len(self.values) < settings.executions
        )

    def add_evaluation(self, step: int, value: float) -> bool:
        """Reports an evaluation of the execution that runs; returns True if the pruner ends the trial.

        Its place is the last multiple of `eval_steps`, because a checkpoint may be some steps late, and trials are
        compared at the same place.
        """
        settings = self._study.settings
        if not settings.eval_steps or not math.isfinite(value):
            return False
        rung = step // settings.eval_steps * settings.eval_steps
        if not 0 < rung < settings.max_steps:
            return False
        place = len(self.values) * settings.max_steps + rung
        return self._report(place, statistics.fmean([*self.values, value]))

    def complete(self) -> None:
        """Ends the trial with the mean of its values."""
        self._trial.set_user_attr(_SPREAD, statistics.stdev(self.values) if len(self.values) > 1 else 0.0)
        self._study.tell(self._trial, "COMPLETE", statistics.fmean(self.values))

    def prune(self, steps: int) -> None:
        """Ends the trial as one that the pruner has stopped after so many steps of its last execution."""
        self._trial.set_user_attr(_STEPS, [*self._steps, steps])
        self._study.tell(self._trial, "PRUNED")

    def fail(self, cause: str, steps: int = 0, counts: bool = True) -> None:
        """Ends the trial with the cause of its failure; `counts`: as one of the trials of the study."""
        self._trial.set_user_attr(_STEPS, [*self._steps, steps])
        self._trial.set_user_attr(_CAUSE, cause)
        if not counts:
            self._trial.set_user_attr(_UNCOUNTED, True)
            self._study.leave_grid(self._trial)
        self._study.tell(self._trial, "FAIL")

    def _report(self, place: int, value: float) -> bool:
        if place in self._reported:
            return False
        self._reported.add(place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a place of an earlier process has its value already
            self._trial.report(value, place)
        return bool(self._study.settings.pruner != "none" and self._trial.should_prune())


class Study:
    """Optuna's study of one command.

    Args:
      space: the flags that it chooses.
      functions: the functions of the space.

    Raises:
      ConfigError: the storage cannot be used, has another study of this name, or the sampler does not fit the space.
    """

    def __init__(self, settings: Settings, space: Space, functions: Sequence[Callable[[Any], Any]] = ()) -> None:
        self.settings, self._space, self._functions = settings, space, functions
        self._optuna = import_optuna()
        self._grid = space.points() if settings.sampler == "grid" else {}
        try:
            self._storage = self._opened_storage()
            self.study = self._created()
        except Exception as error:  # of SQLAlchemy, its drivers, or Optuna
            cause = without_password(one_line(error))[:200]
            raise ConfigError(
                f"storage={without_password(str(settings.storage))} cannot be used ({type(error).__name__}: {cause}): "
                "use a URL as sqlite:///PATH, or NAME.log for a journal file."
            ) from None
        self._check_command()

    def _opened_storage(self) -> Any:
        """Returns Optuna's storage at a URL, or at the path of a journal file, as Optuna's own program takes them."""
        given, storages = self.settings.storage, self._optuna.storages
        if not isinstance(given, str):
            return given
        if given.startswith("redis"):
            return storages.JournalStorage(storages.journal.JournalRedisBackend(given))
        if "://" not in given and (given.endswith(".log") or os.path.isfile(given)):
            os.makedirs(os.path.dirname(os.path.abspath(given)), exist_ok=True)
            return storages.JournalStorage(storages.journal.JournalFileBackend(given))
        return storages.get_storage(given)

    def _created(self) -> Any:
        """Returns Optuna's study, which may be there already."""
        return self._optuna.create_study(
            storage=self._storage,
            study_name=self.settings.name,
            direction=self.settings.direction,
            pruner=self._pruner(),
            load_if_exists=True,
        )

    @property
    def is_new_here(self) -> bool:
        """True if the study has no trial of this tuner yet."""
        return not any(self._is_own(trial) for trial in self.study.get_trials(deepcopy=False))

    def next_trial(self, running: Sequence[int], trials: int) -> TrialRecord | None:
        """Returns the trial that goes on next: one that an earlier process left, or a new one; None if there is none.

        Args:
          running: numbers of the trials that run in this process.
          trials: number of trials of all tuners at which no further one begins.
        """
        for found in self._trials("RUNNING"):
            if found.number in running or not self._is_own(found):
                continue
            trial = self._opened(found)
            if trial.flags:
                return trial
            if self._grid:  # its place in the grid is its number
                self.study.sampler = self._sampler()
                return self._proposed(self._optuna.Trial(self.study, self._id_of(found)))
            trial.fail("the tuner ended before the trial began", counts=False)
        return self._proposed(self._new()) if self._counted() < trials else None

    def _new(self) -> Any:
        """Returns a new trial, which has the mark of this tuner from its first moment, when others may see it."""
        template = self._optuna.trial.create_trial(
            state=self._optuna.trial.TrialState.RUNNING, user_attrs={_TUNER: self.settings.tuner}
        )
        key = self._storage.create_new_trial(self._storage.get_study_id_from_name(self.settings.name), template)
        self.study = self._optuna.load_study(  # without the trials that the last one has read
            study_name=self.settings.name,
            storage=self._storage,
            sampler=self._sampler(self._storage.get_trial(key).number),
            pruner=self._pruner(),
        )
        with _quiet():
            return self._optuna.Trial(self.study, key)

    def _is_own(self, trial: Any) -> bool:
        """Returns True if the jobs of a trial are those of this tuner."""
        return bool(trial.user_attrs.get(_TUNER, self.settings.tuner) == self.settings.tuner)

    def _counted(self, before: int | None = None) -> int:
        """Returns the number of trials that count, of all tuners; only of those before a number if it is given."""
        trials = self.study.get_trials(deepcopy=False)[:before]
        return sum(not trial.user_attrs.get(_UNCOUNTED) for trial in trials)

    def _proposed(self, trial: Any) -> TrialRecord:
        """Returns a trial with the flags that the sampler proposes for it."""
        with _quiet():
            flags = [flag_of(name, value) for name, value in self._space.suggest(trial, self._functions).items()]
        trial.set_user_attr(_FLAGS, flags)
        return TrialRecord(self, trial)

    def _opened(self, found: Any) -> TrialRecord:
        """Returns a trial that runs in the storage, of an earlier process."""
        self.study.sampler = self._optuna.samplers.RandomSampler()  # it proposes nothing
        trial = self._optuna.Trial(self.study, self._id_of(found))
        if found.user_attrs.get(_UNCOUNTED):  # that process died as it failed the trial
            trial.set_user_attr(_UNCOUNTED, False)
        return TrialRecord(self, trial)

    def _id_of(self, trial: Any) -> int:
        """Returns the id of a trial in the storage."""
        study = self._storage.get_study_id_from_name(self.settings.name)
        return int(self._storage.get_trial_id_from_study_id_trial_number(study, trial.number))

    def leave_grid(self, trial: Any) -> None:
        """Makes the point of a trial that does not count free for another trial of a grid."""
        if self._grid:
            self._storage.set_trial_system_attr(self._id_of(trial), "search_space", {})

    def size(self, trials: int) -> int:
        """Returns the number of trials of the study: a grid may have fewer points."""
        return min(trials, math.prod(len(points) for points in self._grid.values())) if self._grid else trials

    def left(self) -> list[int]:
        """Returns the numbers of this tuner's trials that have begun and not ended."""
        return [trial.number for trial in self._trials("RUNNING") if self._is_own(trial)]

    def elsewhere(self) -> list[str]:
        """Returns the host and directory of each trial of another tuner that has begun and not ended."""
        others = [trial for trial in self._trials("RUNNING") if not self._is_own(trial)]
        return [trial.user_attrs[_TUNER].rpartition(" ")[0] for trial in others]

    def finished(self) -> list[TunedTrial]:
        """Returns the trials that have ended, in the order of their numbers."""
        names = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
        found = []
        for trial in self._trials(*names):
            attributes = trial.user_attrs
            if not attributes.get(_UNCOUNTED):
                found.append(
                    TunedTrial(
                        trial.number,
                        names[trial.state.name],
                        trial.value,
                        attributes.get(_SPREAD),
                        sum(attributes.get(_STEPS, ())),
                        trial.params,
                        tuple(attributes.get(_FLAGS, ())),
                        attributes.get(_CAUSE, ""),
                    )
                )
        return found

    def best(self, count: int) -> list[TunedTrial]:
        """Returns the best complete trials, the best one first."""
        complete = [trial for trial in self.finished() if trial.state == "complete" and trial.value is not None]
        sign = -1 if self.settings.direction == MAXIMIZE else 1
        return sorted(complete, key=lambda trial: sign * (trial.value or 0.0))[:count]

    def tell(self, trial: Any, state: str, value: float | None = None) -> None:
        """Ends a trial in the storage."""
        # The sampler of a grid ends Study.optimize at its last point, and raises where there is no such loop.
        self.study.sampler = self._optuna.samplers.RandomSampler() if self._grid else self._sampler()
        with _quiet():
            self.study.tell(trial, value, state=self._optuna.trial.TrialState[state])

    def _trials(self, *states: str) -> list[Any]:
        kinds = tuple(self._optuna.trial.TrialState[state] for state in states)
        return self.study.get_trials(deepcopy=False, states=kinds)

    def _sampler(self, number: int | None = None) -> Any:
        """Returns the sampler of a trial; its seed is that of the study and the number of trials before that count."""
        samplers = self._optuna.samplers
        seed = (self.settings.seed * 1_000_003 + self._counted(number)) % (1 << 31)
        with _quiet():
            if self.settings.sampler == "random":
                return samplers.RandomSampler(seed=seed)
            if self.settings.sampler == "grid":
                return samplers.GridSampler(self._grid, seed=self.settings.seed)
            if self.settings.sampler == "cmaes":
                try:
                    import cmaes  # noqa: F401
                except ImportError as error:
                    raise ConfigError(
                        f"--sampler=cmaes needs the package cmaes ({error}): {install('tune')}."
                    ) from None
                return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
            return samplers.TPESampler(seed=seed)

    def _pruner(self) -> Any:
        pruners, settings = self._optuna.pruners, self.settings
        if settings.pruner == "median":
            return pruners.MedianPruner()
        if settings.pruner == "hyperband":
            most = settings.executions * settings.max_steps
            return pruners.HyperbandPruner(min_resource=max(1, settings.eval_steps), max_resource=most)
        return pruners.NopPruner()

    def _check_command(self) -> None:
        """Remembers the command, or refuses one whose trials this study must not mix."""
        settings, shown = self.settings, without_password(str(self.settings.storage))
        command = json.loads(json.dumps(settings.command))
        has_trials = bool(self.study.get_trials(deepcopy=False))  # read first: another tuner may begin now
        known = self.study.user_attrs.get(_COMMAND)
        if known is None and has_trials:
            raise ConfigError(
                f"the study {settings.name} in {shown} is not of this program: use another --study for its name."
            )
        if known is not None and known != command:
            if any(trial.state != "failed" for trial in self.finished()) or any(
                trial.user_attrs.get(_VALUES) or not self._is_own(trial) for trial in self._trials("RUNNING")
            ):
                names = sorted(key for key in {*known, *command} if known.get(key) != command.get(key))
                changes = ", ".join(
                    f"{name}: {_shown(known.get(name))}, now {_shown(command.get(name))}" for name in names
                )
                raise ConfigError(
                    f"the study {settings.name} in {shown} is of another command ({changes}): repeat that command, or "
                    "use another --study_dir or --study."
                )
            # Nothing but mistakes.  Optuna never changes the direction of a study, or the choices of a name.
            self._optuna.delete_study(study_name=settings.name, storage=self._storage)
            self.study = self._created()
        if self.study.user_attrs.get(_COMMAND) != command:
            self.study.set_user_attr(_COMMAND, command)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides warnings about arguments of Optuna that a user of this program cannot change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _shown(value: Any) -> str:
    return cut(" ".join(value) if isinstance(value, list) else str(value))


def without_password(url: str) -> str:
    """Returns a text with a URL without its password."""
    return re.sub(r"(://[^/@:\s]*):[^/@\s]*@", r"\1:***@", url)


def default_storage(directory: str) -> str:
    """Returns the URL of the storage in a study's directory."""
    return f"sqlite:///{os.path.join(directory, 'study.db')}"


logging.getLogger("alembic").setLevel(logging.ERROR)
