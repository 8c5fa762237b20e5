"""The program `python -m ps_train`: it parses the command line, runs the role or the verb, and exits with its code."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import logging
import os
import platform
import sys
import traceback
from collections.abc import Callable

from ps_train import __version__
from ps_train.base import gc_control, malloc
from ps_train.base.console import FRAMES_BEGIN, Console, ConsoleHandler
from ps_train.base.errors import EXIT_CONFIG, EXIT_DONE, EXIT_FAILED, ConfigError, PsTrainError, SaveError
from ps_train.base.lost_outputs import check_outputs
from ps_train.base.network_interfaces import refuse_public_ports
from ps_train.base.process_stats import neighbouring_cores
from ps_train.base.tf_import import import_tensorflow
from ps_train.base.user_code import describe, frames_text
from ps_train.cluster.addresses import environment
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.from_environment import origin, parse_flags, unused_ranks
from ps_train.cluster.addresses.ports import check_port
from ps_train.commands.launch.child_process import die_with_launcher, stop_with_parent
from ps_train.commands.launch.preflight import check_local_job, check_task, flags_without_effect
from ps_train.commands.launch.task_log import TaskLog
from ps_train.config import flags
from ps_train.config.error_line import error_line
from ps_train.config.error_report import ErrorFile, report_error
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described
from ps_train.config.paths import working_directory
from ps_train.config.verbs import VERBS
from ps_train.modeling.file_check import check_model_file

_ACTIVATE_VARIABLE = "PS_TRAIN_ACTIVATE"
"""Environment variable with the command that activates .venv: `run_local.sh` sets it where that is not done yet."""

_PR_SET_NAME = 15  # sys/prctl.h
_NO_FILE = ErrorFile("", "")
_has_launcher = False
_log: TaskLog | None = None


def main(arguments: list[str], console: Console) -> int:
    """Runs one process of a job; returns its exit code."""
    if any(argument in ("--help", "-help", "-h", "--helpfull", "-helpfull") for argument in arguments):
        console.line(flags.help_text(full=any(argument.endswith("helpfull") for argument in arguments)))
        return EXIT_DONE
    if any(argument in ("--version", "-version") for argument in arguments):
        console.line(_versions())
        return EXIT_DONE
    try:
        working_directory()
        parsed = parse_flags(arguments, os.environ)
    except Exception as error:
        return _report(error, console, verbose=False)
    task = parsed.task
    name = _local_chief(parsed.job) if task.job_name == "local" else str(task.with_default_index())
    error_file = ErrorFile(parsed.job.log_dir, name)
    error_file.remove()
    return _reported(functools.partial(_run, parsed, console), console, parsed.job.verbose, error_file)


def _local_chief(job: Job) -> str:
    """Returns the task that gets the error of a local job that fails before its tasks start."""
    return "chief:0" if job.chief_hosts else "worker:0"


def _reported(work: Callable[[], int], console: Console, verbose: bool, file: ErrorFile = _NO_FILE) -> int:
    """Runs a function; shows its error and returns the exit code."""
    try:
        return work()
    except Exception as error:
        return _report(error, console, verbose, file)


def _report(error: Exception, console: Console, verbose: bool, file: ErrorFile = _NO_FILE) -> int:
    """Shows an error: the user's frames (all with --verbose) and one line; returns the exit code."""
    is_raised = report_error(error) and not _has_launcher  # by the fit that started this process
    text, code = (str(error), error.exit_code) if isinstance(error, PsTrainError) else (describe(error), EXIT_FAILED)
    file.write(text, "".join(traceback.format_exception(error)), code)
    cause = error.__cause__ if isinstance(error, PsTrainError) else error
    if verbose and cause is not None:
        console.error("".join(traceback.format_exception(error)).rstrip())
    elif cause is not None:
        frames = frames_text(cause)
        if frames.count('File "') - frames.count(", in <module>") > 1:  # the line below has the last one
            console.error(f"{FRAMES_BEGIN}\n{frames}")
    if not is_raised:
        console.error(error_line(error, text=text))
    return code


def _run(parsed: flags.ParsedFlags, console: Console) -> int:
    job, task = parsed.job, parsed.task
    if job.dry_run:
        return _dry_run(job, task, console)
    if task.job_name == "local":
        from ps_train.commands.launch import local
        from ps_train.commands.launch.child_process import ForkTarget

        check_local_job(job, has_job_name="job_name" in parsed.given)
        refuse_public_ports("the job", job.allow_public_ports)
        for line in filter(None, [*flags_without_effect(job, task), unused_ranks(job, os.environ)]):
            console.error(f"ps_train: warning: {line}")
        file = ErrorFile(job.log_dir, _local_chief(job))
        check = functools.partial(_reported, functools.partial(_check_model, job), console, job.verbose, file)
        template = ForkTarget(functools.partial(_import_for_children, job), _program, check)
        activate = os.environ.pop(_ACTIVATE_VARIABLE, "")
        code = local.run(job, flags.as_arguments(parsed.given), os.environ, console, template)
        if activate and code == EXIT_DONE:
            console.line(f"to use the environment of this job in a shell, before other commands:  {activate}")
        return code
    if job.inject_fault and not _has_launcher:
        raise ConfigError(f"{described(job, 'inject_fault')} is for a cluster that one command starts on this machine.")
    task = flags.with_task(task)
    if job.log_dir:
        global _log
        _log, console.live = TaskLog(job.log_dir, str(task)), False  # in a file each line stays
    check_task(job, task)
    _set_up_process(job, task, console)
    if task.job_name != "evaluator":
        refuse_public_ports(str(task), job.allow_public_ports)
        check_port(Cluster.of(job).address(task), task)  # before TensorFlow, whose import takes seconds
    from ps_train.base.signals import exit_on_signals
    from ps_train.training.tasks.health_port import serve_health

    exit_on_signals()
    if not _has_launcher:
        serve_health(job, task)  # before the import of TensorFlow, which may outlast a probe
    gc_control.disable()
    import_tensorflow(job.verbose)
    if task.job_name == "ps":
        from ps_train.training.tasks import ps as role
    elif task.job_name == "evaluator":
        from ps_train.training.tasks import evaluator as role  # type: ignore[no-redef]
    else:
        from ps_train.training.tasks import worker as role  # type: ignore[no-redef]
    code = role.run(job, task, console)
    if code == EXIT_DONE:
        check_outputs()
    return code


def _dry_run(job: Job, task: Task, console: Console) -> int:
    """Prints the report of a warm start; returns the exit code."""
    if task.job_name == "ps":
        return EXIT_DONE
    check_model_file(job.model, job.model_arguments(), job.sources)
    environment.apply(environment.import_environment(job, os.environ), os.environ)
    _prepare_logging(console, job.verbose)
    import_tensorflow(job.verbose)
    from ps_train.commands.launch.dry_run import dry_run

    return dry_run(job, console)


def _set_up_process(job: Job, task: Task, console: Console) -> None:
    """Sets the name, the environment and the log of a task's process."""
    _name_process(str(task))
    cores = neighbouring_cores()
    changes = environment.task_environment(task, job, os.environ, len(cores))
    own = environment.cores_of(task, job, os.environ, cores, os.cpu_count() or 0)
    environment.apply(changes, os.environ)
    _prepare_logging(console, job.verbose)
    for name, value in changes.items():
        logging.getLogger("ps_train").debug("environment: %s=%s", name, value)
    if len(own) < len(cores):
        logging.getLogger("ps_train").debug("cores: %s", ",".join(map(str, own)))
        with contextlib.suppress(OSError):  # a container may not allow it; the threads are this task's share already
            for thread in os.listdir("/proc/self/task"):  # those that are there; others inherit it
                os.sched_setaffinity(int(thread), own)
    if line := origin(job, task):
        logging.getLogger("ps_train").info(line)
    for line in [] if _has_launcher else flags_without_effect(job, task):
        logging.getLogger("ps_train").warning(line)
    if malloc.tune_malloc(os.environ):
        logging.getLogger("ps_train").debug("memory: %s and %s bytes are kept", malloc.MMAP_BYTES, malloc.TRIM_BYTES)


def _import_for_children(job: Job) -> None:
    """Imports the modules that all children need.

    It starts no thread, and reads no environment variable that differs between tasks.
    """
    environment.apply(environment.import_environment(job, os.environ), os.environ)
    gc_control.disable()
    import_tensorflow(job.verbose)
    from ps_train.training.tasks import ps, worker  # noqa: F401

    gc_control.freeze()


def _check_model(job: Job) -> int:
    """Imports the model and makes it once, and checks where it writes to; returns the exit code."""
    from ps_train.config.file_systems import check_file_systems
    from ps_train.modeling.load_model import load_model, use_flags
    from ps_train.saved.export.export import prepare_export
    from ps_train.training.joining.model_directory import check_model_dir
    from ps_train.training.joining.warm_starts import open_warm_start

    model = load_model(job.model, job.model_arguments(), job.sources)
    use_flags(model, job)
    check_file_systems(job)
    check_model_dir(job)
    open_warm_start(job, model, job.model_dir)
    if job.export_dir:
        prepare_export(job.export_dir)
    return EXIT_DONE


def _versions() -> str:
    names = ("tensorflow", "numpy")
    found = []
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join([f"ps_train {__version__}", *found, f"Python {platform.python_version()}"])


def _prepare_logging(console: Console, verbose: bool) -> None:
    handler = ConsoleHandler(console, "")
    logger = logging.getLogger("ps_train")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        logging.getLogger("tensorflow").setLevel(logging.ERROR)


def _name_process(name: str) -> None:
    """Sets the name shown by `ps -o comm` and `top`: forked children share the launcher's command line."""
    with contextlib.suppress(OSError, AttributeError):  # Linux
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())


def _drop_unread_output() -> None:
    """Drops output whose reader has gone, as with `| head`: Python would report an error when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Opens the null device instead of standard streams that are closed: a socket must not get their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            if opened != number:
                os.dup2(opened, number)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _program(arguments: list[str]) -> int:
    global _has_launcher
    _has_launcher = die_with_launcher()
    if "numpy" in sys.modules:  # forked workers must not draw the same numbers
        sys.modules["numpy"].random.seed()
    _open_closed_streams()
    code = main(arguments, Console(sys.stdout, sys.stderr))
    with contextlib.suppress(OSError):  # the reader has gone
        sys.stdout.flush()
        sys.stderr.flush()
    if _log is not None and (lost := _log.close()):
        _log.error(error_line(SaveError(f"{lost} could not be written completely: use another directory.")))
        code = code or EXIT_CONFIG
    return code


def run() -> None:
    """Runs the program; exits without unwinding TensorFlow, whose servers cannot be shut down."""
    stop_with_parent()
    if sys.argv[1:2] and sys.argv[1] in VERBS:
        run_verb = VERBS[sys.argv.pop(1)].load()
        try:
            sys.exit(run_verb(sys.argv[1:], Console(sys.stdout, sys.stderr)))
        finally:
            _drop_unread_output()
    os._exit(_program(sys.argv[1:]))


if __name__ == "__main__":
    run()
