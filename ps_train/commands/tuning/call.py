"""A study as a Python call.

    result = tune(Net, {"learning_rate": "1e-4..1e-1:log", "model_arg.hidden": [16, 32]}, objective="auc", trials=50)
    result.best.value, result.best.params, result.command

The study runs in a process of its own, as the job of `fit` does, and the same call goes on with it.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.base.errors import EXIT_DONE, ConfigError, JobFailedError
from ps_train.base.untrusted import parse_json, read_text
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.commands.launch.fit import call_environment, error_of_call, values_of_call
from ps_train.commands.launch.fit_process import run_program
from ps_train.commands.launch.sent_model import write_function
from ps_train.commands.tuning.reports import SUMMARY
from ps_train.commands.tuning.space import quoted
from ps_train.commands.tuning.study import TunedTrial
from ps_train.commands.tuning.tune import default_directory
from ps_train.config import flags

Space = Mapping[str, str | Sequence[Any]] | Callable[[Any], Any] | Sequence[str]


@dataclasses.dataclass(frozen=True)
class TuneResult:
    """The result of a study.

    Attributes:
      best: the best trial.
      trials: all trials that have ended.
      command: the command that trains with the flags of the best trial.
      study_dir: directory of the study.
      study: its name in the storage.
      storage: URL of Optuna's storage, for `optuna.load_study`.
    """

    best: TunedTrial
    trials: Sequence[TunedTrial]
    command: str
    study_dir: str
    study: str
    storage: str


def tune(
    model: Any,
    space: Space,
    *,
    objective: str,
    trials: int = 20,
    executions: int = 1,
    parallel_trials: int = 1,
    direction: str = "",
    sampler: str = "tpe",
    pruner: str = "none",
    study_dir: str | os.PathLike[str] = "",
    storage: str = "",
    study: str = "",
    quiet: bool = False,
    **given: Any,
) -> TuneResult:
    """Searches for the best flags of a job; the same call continues an interrupted study.

    Args:
      model: a subclass of `ps_train.Model`, an instance of one, or "package.module:Class".
      space: flag, or `model_arg.NAME`, to its range `"1e-4..1e-1:log"` or a list of its values; a function of Optuna's
        trial; or the texts that `--space` takes.
      objective: the metric of the test split that decides, or "loss".
      trials: finished trials at which the study is over.
      executions: jobs of a trial, with different seeds; their mean is the value of the trial.
      parallel_trials: trials at a time.
      direction: "maximize" or "minimize"; "": the name of the objective decides.
      sampler: "tpe", "random", "cmaes" or "grid".
      pruner: "none", "median" or "hyperband".
      study_dir: directory of the study; "": runs/MODEL-tune.
      storage: URL of Optuna's storage; "": a file in study_dir.
      study: name of the study; "": the last part of study_dir.
      quiet: if True, nothing is printed.
      **given: flags of the jobs by name, as `ps_train.fit` takes them.

    Raises:
      PsTrainError: ConfigError, ModelError or DataError if something must be corrected; TrainingError if no trial is
        complete.
    """
    with tempfile.TemporaryDirectory(prefix="ps_train_tune_") as directory:
        try:
            values = values_of_call(model, given, directory)
            texts = _texts(space, directory, values["model"])
        except ConfigError as error:
            raise ConfigError(str(error).replace("fit()", "tune()")) from None
        own = {
            "objective": objective, "trials": trials, "executions": executions, "parallel_trials": parallel_trials,
            "direction": direction, "sampler": sampler, "pruner": pruner, "study_dir": os.fspath(study_dir),
            "storage": storage, "study": study,
        }  # fmt: skip
        arguments = [f"--{name}={value}" for name, value in own.items() if value not in ("", None)]
        arguments += [f"--space={text}" for text in texts]
        arguments += flags.as_arguments(values)
        code = run_program(["tune", *arguments], call_environment(directory), quiet)
        if code != EXIT_DONE:
            raise error_of_call(code, directory)
        found = os.path.abspath(os.path.expanduser(study_dir)) if study_dir else ""
        if not found:
            found = os.path.abspath(default_directory(parse_flags(flags.as_arguments(values), os.environ).job))
    return _result(found, storage)


def _texts(space: Space, directory: str, path: str) -> list[str]:
    """Returns a space as `--space` takes it."""
    if callable(space):
        return [write_function(space, directory, path)]
    if isinstance(space, Mapping):
        return [f"{name}={_text(value)}" for name, value in space.items()]
    if isinstance(space, str) or not all(isinstance(text, str) for text in space):
        raise ConfigError(f"space={space!r} (from tune()) is not valid: use a dict, a function, or a list of texts.")
    return list(space)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{value!r} (from tune()) is not a range or a list of values: use 'LOW..HIGH' or a list.")
    return ",".join(str(one).lower() if isinstance(one, bool) else quoted(str(one)) for one in value)


def _result(directory: str, storage: str) -> TuneResult:
    found = parse_json(read_text(os.path.join(directory, SUMMARY)), finite=False)
    trials = [TunedTrial(**trial) for trial in found["trials"]]
    best = next((trial for trial in trials if trial.number == found["best"]), None)
    if best is None:
        raise JobFailedError("no trial is complete: see the output.")
    return TuneResult(best, trials, found["command"], directory, found["study"], storage or found["storage"])
