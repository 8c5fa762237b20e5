"""Search for the best flags of a job: a study whose trials are whole jobs.

    python -m ps_train tune --model=net:Net --objective=auc --trials=50 --executions=3
        --space=learning_rate:1e-4..1e-1:log --space=model_arg.hidden:16,32,64 --space=optimizer:adam,adagrad

Optuna proposes the flags.  The value of a trial is the mean over its executions, which have different seeds.  The same
command resumes a study after any end, and repeats no finished trial.  All flags of the jobs are possible too; with
--hosts also the flags of `python -m ps_train launch`.  help: search#the-space
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ps_train.base import gc_control
from ps_train.base.command_parser import CommandParser, whole_number
from ps_train.base.console import Console
from ps_train.base.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    ConfigError,
    ModelError,
    PsTrainError,
    TrainingError,
    exit_code_of_signal,
    nearest,
    one_line,
    signal_name,
)
from ps_train.base.remote_files import scheme_of
from ps_train.base.tf_import import import_tensorflow
from ps_train.base.user_code import user_code
from ps_train.cluster.addresses import environment
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.commands.launch import launch as launch
from ps_train.commands.launch.fork import can_fork
from ps_train.commands.launch.preflight import check_local_job
from ps_train.commands.tuning import reports
from ps_train.commands.tuning.executions import Jobs, end_leftovers, put_aside_trials, tuner_of
from ps_train.commands.tuning.search import Search
from ps_train.commands.tuning.space import Space, Value, flag_of, parse_space
from ps_train.commands.tuning.study import (
    MAXIMIZE,
    MINIMIZE,
    PRUNERS,
    SAMPLERS,
    Settings,
    Study,
    check_name,
    default_storage,
    import_optuna,
    without_password,
)
from ps_train.config import flags
from ps_train.config.error_line import error_line
from ps_train.config.error_report import report_error
from ps_train.config.fields import job_fields
from ps_train.config.job import Job, Task
from ps_train.config.metric_rule import MetricRule
from ps_train.config.output_fields import NO_TRACKER, OF_ONE_RUN
from ps_train.config.verbs import VERBS
from ps_train.modeling.file_check import check_model_file, model_parameters
from ps_train.modeling.load_model import load_module

_LOCK = "lock"
_OF_STORAGES = ("sqlalchemy", "optuna", "redis")
"""Packages whose errors are those of a storage."""

_LOOK_SECS = 0.1
_SHOWN_CAUSE = 200


def tune(arguments: Sequence[str], console: Console) -> int:
    """Runs a study; returns its exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives the progress and the best trials.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # before the first job there is nothing to stop
    try:
        return _run(arguments, console)
    except PsTrainError as error:
        found = error
    except OSError as error:  # such as a full disk
        found = TrainingError(f"{error}")
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _OF_STORAGES:
            raise
        cause = without_password(one_line(error))[:_SHOWN_CAUSE]
        found = TrainingError(f"the storage of the study failed ({cause}): start the same command again when it works.")
    if not report_error(found):
        console.error(error_line(found, VERBS["tune"].page))
    return found.exit_code


def default_directory(job: Job) -> str:
    """Returns the directory of a study without --study_dir, which is the same for the same model."""
    return os.path.join("runs", f"{job.model.rpartition(':')[2].lower()}-tune")


def command_line() -> CommandParser:
    """Returns the parser of the command line."""
    parser = CommandParser("python -m ps_train tune", description=__doc__)
    add = parser.add_argument
    add("--objective", required=True, help="the metric of the test split that decides, or loss: the last training loss")
    add("--space", action="append", default=[], metavar="SPACE",
        help="a flag to choose, may be repeated: NAME:LOW..HIGH[:log][:int|:STEP], NAME:A,B,C, or the name of a "
        "function of the model's module that takes the trial; arguments of the model are model_arg.NAME")  # fmt: skip
    add("--trials", type=whole_number(1, 1_000_000), default=20, help="finished trials at which the study is over [20]")
    add("--executions", type=whole_number(1, 1_000_000), default=1, help="jobs of a trial, with different seeds [1]")
    add("--parallel_trials", type=whole_number(1, 1_000_000), default=1, help="trials at a time [1]")
    add("--direction", choices=(MAXIMIZE, MINIMIZE),
        help="[minimize for a metric whose name says loss or error, else maximize]")  # fmt: skip
    add("--sampler", default="tpe", help=f"Optuna's sampler: {', '.join(SAMPLERS)} [tpe]")
    add("--pruner", default="none",
        help=f"Optuna's pruner: {', '.join(PRUNERS)}; it needs --save_steps, the steps between evaluations "
        "[none]")  # fmt: skip
    add("--study_dir", default="", metavar="DIR", help="directory of the study and its jobs [runs/MODEL-tune]")
    add("--storage", default="", metavar="URL", help="Optuna's storage [sqlite:///DIR/study.db]")
    add("--study", default="", metavar="NAME", help="name of the study in the storage [the last part of DIR]")
    parser.epilog = "All flags of the jobs are possible too: python -m ps_train --help."
    return parser


def _run(arguments: Sequence[str], console: Console) -> int:
    parser = command_line()
    cut = list(arguments).index("--") if "--" in arguments else len(arguments)
    _check_flags(list(arguments)[:cut], parser)
    given, rest = parser.parse_known_args(list(arguments)[:cut])
    rest += list(arguments)[cut + 1 :]
    check_name("sampler", given.sampler, SAMPLERS)
    check_name("pruner", given.pruner, PRUNERS)
    has_hosts = any(re.match(r"--?hosts\b", argument) for argument in rest)
    parsed = parse_flags(launch.flags_of_job(rest) if has_hosts else rest, os.environ)
    job = parsed.job
    directory = os.path.abspath(os.path.expanduser(given.study_dir or default_directory(job)))
    import_optuna()
    reports.check_plotly()
    space = parse_space(given.space, _fractions(job.model))
    _check_job(parsed, given, space, has_hosts)
    with _locked(directory):
        functions = _functions(job, space)
        passed = _passed(parsed)
        end_leftovers(directory, console)
        study = _study(given, job, space, functions, directory, [] if not has_hosts else rest, passed)
        if study.is_new_here and (aside := put_aside_trials(directory)):
            console.line(f"the study is new here: jobs of an earlier one are in {aside}")
        jobs = Jobs(
            directory,
            given.objective,
            tuple(rest if has_hosts else flags.as_arguments(passed)),
            verb=("launch",) if has_hosts else (),
            seed=job.seed,
            evaluates=given.pruner != "none",
            forks=not functions,
            tracked_as=study.settings.name if job.track != NO_TRACKER else "",
            sources=job.sources,
            evaluator_arguments=tuple(launch.flags_of_job(rest)) if has_hosts else None,
        )
        _say_begin(study, given, directory, console)
        if jobs.forks and can_fork():
            _import_for_jobs(job)
        return _search(study, jobs, given, directory, console)


def _passed(parsed: flags.ParsedFlags) -> dict[str, Any]:
    """Returns the given flags that each job gets."""
    passed = {name: value for name, value in parsed.given.items() if name not in ("seed", "job_name")}
    if "job_name" in parsed.given:  # "local" with host lists says that all tasks are here
        passed["job_name"] = parsed.task.job_name
    return passed


def _check_flags(arguments: Sequence[str], parser: CommandParser) -> None:
    """Refuses a flag that neither this command nor a job or its launcher has, with the nearest names."""
    names = {
        *parser.option_names,
        *launch.options(),
        *(field.name for kind in (Task, Job) for field in job_fields(kind)),
    }
    names |= {"flagfile", "help", "h", "-h"}
    for argument in arguments:
        name = re.fullmatch(r"--?([A-Za-z_][\w-]*)(=.*)?", argument, re.DOTALL)
        if name and name[1] not in names and name[1].removeprefix("no") not in names:
            see = f"see {parser.prog} --help."
            hint = nearest(name[1], sorted(names), "did you mean --{}?", see, most=3, joint=", --")
            raise ConfigError(f"there is no flag --{name[1]}: {hint}")


def _fractions(model: str) -> list[str]:
    """Returns the arguments of a model that are annotated as float."""
    found = [(name, str(parameter.annotation)) for name, parameter in model_parameters(model).items()]
    return [f"model_arg.{name}" for name, annotation in found if "float" in annotation]


def _check_job(parsed: flags.ParsedFlags, given: argparse.Namespace, space: Space, has_hosts: bool) -> None:
    """Refuses jobs that would be refused, or could not be told apart, before any of them starts."""
    job, task = parsed.job, parsed.task
    if task.job_name != "local":
        raise ConfigError(
            f"this process is {flags.with_task(task)} of a cluster, but tune starts whole jobs: leave the task out, "
            "with --cluster_from=none if the environment names it; machines share a study through --storage."
        )
    for name in OF_ONE_RUN:
        if name in parsed.given:
            raise ConfigError(
                f"--{name} has no place in tune: each job has a directory of its own in --study_dir; give it to the "
                "command that trains the best trial."
            )
    if scheme_of(given.study_dir):
        raise ConfigError(f"study_dir={given.study_dir} is not local: use a directory of this machine.")
    if given.pruner != "none" and not job.save_steps:
        raise ConfigError(
            f"--pruner={given.pruner} needs evaluations while a job trains: add --save_steps=N, the steps between the "
            "checkpoints that an evaluator scores."
        )
    fixed = [
        (job.ps_hosts or job.worker_hosts, "host lists"),
        (has_hosts, "--hosts"),
        ((job.status_port or 0) > 0, f"--status_port={job.status_port}"),
    ]
    for is_fixed, name in fixed:
        if is_fixed and given.parallel_trials > 1:
            raise ConfigError(
                f"--parallel_trials={given.parallel_trials} and {name} are both given, but two jobs cannot have the "
                "same ports: use 1."
            )
    for name in ("max_steps", "save_steps"):
        if given.pruner != "none" and name in [parameter.name for parameter in space.parameters]:
            raise ConfigError(
                f"{name} is in the space, but --pruner={given.pruner} compares trials at the same steps: give it a "
                "fixed value, or use no pruner."
            )
    for parameter in space.parameters:
        name = parameter.name
        arguments = job.model_arguments() if name.startswith("model_arg.") else job.optimizer_arguments()
        if name in parsed.given or ("." in name and name.partition(".")[2] in arguments):
            raise ConfigError(f"{name} is in the space and has a fixed value too: drop one of them.")
    if not has_hosts:
        check_local_job(_checked(parsed, {}) if space.functions else job, has_job_name="job_name" in parsed.given)
    first = {parameter.name: parameter.ends()[0] for parameter in space.parameters}
    for parameter in space.parameters:
        for value in parameter.ends():
            found = _checked(parsed, {**first, parameter.name: value})
            check_model_file(found.model, found.model_arguments(), found.sources)


def _checked(parsed: flags.ParsedFlags, values: dict[str, Value]) -> Job:
    """Returns the job with some values of the space; raises ConfigError that names --space."""
    arguments = [flag_of(name, value) for name, value in values.items()]
    try:
        return parse_flags([*flags.as_arguments(parsed.given), *arguments], os.environ).job
    except ConfigError as error:
        raise ConfigError(str(error).replace(flags.COMMAND_LINE, "--space")) from None


def _functions(job: Job, space: Space) -> list[Callable[[Any], Any]]:
    """Returns the functions of the space, which are in the model's module."""
    found = []
    for name in space.functions:
        import_tensorflow(job.verbose)
        module = load_module(job.model)
        function = getattr(module, name, None)
        if not callable(function):
            names = [known for known, value in vars(module).items() if callable(value)]
            hint = nearest(name, names, "did you mean {}?", f"define def {name}(trial) there.")
            raise ModelError(f"--space={name}: {module.__name__} has no function {name}: {hint}")
        found.append(_called(name, function))
    return found


def _called(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def call(trial: Any) -> Any:
        with user_code(f"{name}(trial)"):
            return function(trial)

    call.__name__ = name
    return call


def _study(
    given: argparse.Namespace, job: Job, space: Space, functions: Sequence[Any], directory: str, verb: Sequence[str],
    passed: dict[str, Any],
) -> Study:  # fmt: skip
    larger = MetricRule(given.objective).is_better(given.objective, 1.0, than=0.0)
    direction = given.direction or (MAXIMIZE if larger else MINIMIZE)
    settings = Settings(
        name=given.study or os.path.basename(directory),
        storage=given.storage or default_storage(directory),
        direction=direction,
        sampler=given.sampler,
        pruner=given.pruner,
        seed=job.seed,
        executions=given.executions,
        max_steps=job.max_steps,
        eval_steps=job.save_steps if given.pruner != "none" else 0,
        command={
            "objective": given.objective,
            "direction": direction,
            "executions": given.executions,
            "space": sorted(given.space),
            "seed": job.seed,
            "flags": list(verb) or flags.as_arguments(passed),
        },
        tuner=tuner_of(directory),
    )
    return Study(settings, space, functions)


def _say_begin(study: Study, given: argparse.Namespace, directory: str, console: Console) -> None:
    finished, left, others = study.finished(), study.left(), study.elsewhere()
    settings = study.settings
    console.line(
        f"study {settings.name} in {directory}: {settings.direction} {given.objective}, {study.size(given.trials)} "
        f"trials of {settings.executions} jobs, sampler {settings.sampler}, pruner {settings.pruner}"
    )
    if study.size(given.trials) < given.trials:
        console.line(f"the grid has {study.size(given.trials)} points")
    if finished or left or others:
        begun = f", {len(left)} resume" if left else ""
        begun += f", {len(others)} run elsewhere ({', '.join(sorted({*others}))})" if others else ""
        console.line(f"{len(finished)} trials have ended already{begun}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if given.parallel_trials > cores:
        console.error(
            f"ps_train: warning: --parallel_trials={given.parallel_trials} trials share {cores} cores: each takes "
            "longer, and all of them together no less."
        )


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Holds the directory of a study for this process."""
    try:
        os.makedirs(directory, exist_ok=True)
        file = open(os.path.join(directory, _LOCK), "a+")  # noqa: SIM115
    except OSError as error:
        raise ConfigError(f"study_dir={directory} cannot be written to ({error.strerror}): use another one.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise ConfigError(
                f"study_dir={directory} is in use by another tune (process {file.read().strip() or 'unknown'}): wait "
                "for its end, or use another directory."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _import_for_jobs(job: Job) -> None:
    """Imports the modules of all jobs, which are forks of this process."""
    environment.apply(environment.import_environment(job, os.environ), os.environ)
    gc_control.disable()
    import_tensorflow(job.verbose)
    from ps_train.training.tasks import evaluator, ps, worker  # noqa: F401

    gc_control.resume()


class _Signals:
    """The signals that have come, in their order."""

    def __init__(self) -> None:
        self.got: list[int] = []
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:  # nohup
                signal.signal(signum, lambda number, frame: self.got.append(number))


def _search(study: Study, jobs: Jobs, given: argparse.Namespace, directory: str, console: Console) -> int:
    signals, began = _Signals(), time.monotonic()
    before = len(study.finished())

    def show(number: int) -> None:
        finished, best = study.finished(), study.best(1)
        made = len(finished) - before
        left = (search.trials - len(finished)) * (time.monotonic() - began) / made if made else None
        trial = next((trial for trial in finished if trial.number == number), None)
        if trial is not None and trial.state == "failed":
            console.error(f"ps_train: warning: trial {number} failed: {trial.cause[:_SHOWN_CAUSE]}")
        console.progress(reports.progress_line(finished, search.trials, best, given.objective, left))

    search = Search(study, jobs.start, given.trials, given.parallel_trials, show)
    try:
        while not signals.got and search.advance():
            time.sleep(_LOOK_SECS)
    except BaseException:
        _end_all(search, signals)
        raise
    if signals.got:
        console.line(f"got {signal_name(signals.got[0])}: the trials that run are stopped")
    _end_all(search, signals)
    _report(study, jobs, given, directory, console)
    if signals.got:
        console.line("to resume: the same command")
        return exit_code_of_signal(signals.got[0])
    return EXIT_DONE if study.best(1) else _no_trial(study, console)


def _end_all(search: Search, signals: _Signals) -> None:
    """Stops the executions that run; a second signal kills them."""
    search.stop()
    while not search.have_ended():
        if len(signals.got) > 1:
            search.kill()
        time.sleep(_LOOK_SECS)


def _report(study: Study, jobs: Jobs, given: argparse.Namespace, directory: str, console: Console) -> None:
    best = study.best(5)
    command = reports.command_of(jobs, best[0], os.path.join(directory, "best")) if best else ""
    reports.write_summary(directory, reports.summary_of(study, given.objective, command))
    reports.write_page(study, directory, given.objective, command)
    for line in reports.table(best, given.objective) if best else []:
        console.line(line)
    if command:
        console.line(f"to train the best one: {command}")
    shown = without_password(study.settings.storage)
    if others := study.elsewhere():
        console.line(f"still running elsewhere: trials in {', '.join(sorted({*others}))}")
    console.line(f"all trials: {os.path.join(directory, reports.PAGE)}; optuna-dashboard {shown}")


def _no_trial(study: Study, console: Console) -> int:
    causes = [trial.cause for trial in study.finished() if trial.cause]
    failed = TrainingError(
        f"no trial is complete{f'; the first cause: {causes[0]}' if causes else ''}", page="troubleshoot#a-task-died"
    )
    console.error(error_line(failed))
    return EXIT_FAILED
