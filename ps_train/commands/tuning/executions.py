"""Executions: jobs as child processes, and what they have written.

    jobs = Jobs(directory, objective, arguments, verb=(), evaluates=False, forks=True)
    execution = jobs.start(trial, 0)        # DIR/trials/0007/0 has its model directory and output.log
    execution.poll()                        # Ending(code=0, value=0.81, steps=500)
    end_leftovers(directory, console)       # processes of a tuner that has died

A job is the program itself, `python -m ps_train` or its verb `launch`, as a fork of this process where possible.  Its
launcher stops when the tuner ends in any way, and its tasks end with their launcher.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import itertools
import json
import os
import re
import runpy
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.base.children import ChildProcess, describe_exit, start_child
from ps_train.base.console import Console
from ps_train.base.errors import (
    EXIT_CONFIG,
    EXIT_DONE,
    EXIT_FAILED,
    ConfigError,
    exit_code_of_signal,
    nearest,
    signal_name,
    split_page,
)
from ps_train.base.process_ids import host_identity, process_exited, start_time
from ps_train.base.untrusted import UntrustedError, is_of, parse_json, read_text
from ps_train.base.whole_file import write_whole
from ps_train.commands.launch.child_process import PARENT_VARIABLE, stop_with_parent
from ps_train.commands.launch.fork import ForkedProcess, can_fork
from ps_train.commands.launch.output import TaskOutput
from ps_train.commands.launch.supervisor import GRACE_SECS
from ps_train.commands.tuning.search import Ending, Execution
from ps_train.commands.tuning.study import TrialRecord
from ps_train.config.error_report import REPORT_VARIABLE
from ps_train.config.fields import item_key, repeated_fields
from ps_train.config.job import Job
from ps_train.config.tracker_check import SOURCES_VARIABLE, TRACK_PARENT

TRIALS, MODEL, OUTPUT = "trials", "model", "output.log"
_PROCESSES, _EVALUATOR_OUTPUT, _TUNER = "processes.json", "evaluator.log", "tuner"
_STOP_SECS = GRACE_SECS + 5.0
"""Seconds from a signal to the kill: a launcher has ended its tasks by then."""

_POLL_SECS = 0.1
_LAST_LINES = 50
_CHECKPOINT = re.compile(r"model\.ckpt-(\d+)\.index")


@dataclasses.dataclass(frozen=True)
class _Record:
    """The identity of a process, for a later tuner."""

    host: str
    machine: str
    pid: int
    started: str


class ProgramProcess:
    """A job or its evaluator: the program with some arguments, whose output goes to a file.

    Attributes:
      process: the child process.
    """

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str], output: str, forks: bool) -> None:
        self._gate = -1
        if forks and can_fork():
            child = ForkedProcess(functools.partial(_program, list(arguments), output), environ, inherited=[])
            for stream in (child.stdout, child.stderr):
                assert stream is not None
                stream.close()
            self._gate = child.stdin
            self.process: ChildProcess = child
        else:
            with open(output, "ab") as file:
                command = [sys.executable, "-m", "ps_train", *arguments]
                self.process = start_child(command, environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def let_begin(self) -> None:
        """Lets a fork begin, whose identity is on the disk now; a new process takes longer than that to begin."""
        if self._gate >= 0:
            os.write(self._gate, b".")
            os.close(self._gate)
            self._gate = -1


def _program(arguments: list[str], output: str) -> int:
    """Runs the program in a fork, which has imported TensorFlow; not if the tuner dies before `let_begin`."""
    if not os.read(0, 1):
        return EXIT_FAILED
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)
    stop_with_parent()
    sys.argv = ["ps_train", *arguments]
    try:
        runpy.run_module("ps_train", run_name="__main__", alter_sys=True)
    except SystemExit as error:  # of a verb
        return error.code if isinstance(error.code, int) else EXIT_FAILED
    return EXIT_DONE


class JobExecution:
    """A job of a trial, and its evaluator if it has one.

    Args:
      objective: name of the metric.
      job: starts the job.
      evaluators: start the evaluators, of which there may be none.
    """

    def __init__(
        self,
        directory: str,
        objective: str,
        job: Callable[[], ProgramProcess],
        evaluators: Sequence[Callable[[], ProgramProcess]],
    ) -> None:
        self._directory, self._objective = directory, objective
        self._evaluated: set[int] = set()
        self._is_stopping = False
        self._ending: Ending | None = None
        self._mistake: Ending | None = None
        programs = [job(), *(start() for start in evaluators)]
        self._processes = [program.process for program in programs]
        self._job, *self._evaluators = self._processes
        _write_records(directory, [process.pid for process in self._processes])
        for program in programs:
            program.let_begin()

    def poll(self) -> Ending | None:
        """Returns the end of the job, or None while it runs; kills it if it does not stop in time."""
        if self._ending is None:
            self._ending = self._look()
        return self._ending

    def _look(self) -> Ending | None:
        codes = [evaluator.poll() for evaluator in self._evaluators]
        if EXIT_CONFIG in codes and self._job.poll() is None and not self._is_stopping:
            cause = _cause(os.path.join(self._directory, _EVALUATOR_OUTPUT), EXIT_CONFIG)
            self._mistake = Ending(EXIT_CONFIG, cause=cause)
            self.stop()
        code = self._job.poll()
        if code is None:
            return None
        if None in codes:
            for evaluator in self._evaluators:
                evaluator.send(signal.SIGKILL)
            return None
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._directory, _PROCESSES))
        if self._mistake is not None:
            return self._mistake
        if code == EXIT_DONE:
            return self._result()
        cause = _cause(os.path.join(self._directory, OUTPUT), code)
        return Ending(code, steps=_last_step(os.path.join(self._directory, MODEL)), cause=cause)

    def _result(self) -> Ending:
        """Returns the end of a job that is done, with the value of the objective."""
        path = os.path.join(self._directory, MODEL, "result.json")
        try:
            result = parse_json(read_text(path), finite=False)
            step, metrics = result["global_step"], {"loss": result["loss"], **result["metrics"]}
        except (OSError, UntrustedError, KeyError, TypeError) as error:
            return Ending(EXIT_FAILED, cause=f"{path} cannot be read ({error}): the job wrote no result.")
        if self._objective not in metrics:
            return Ending(EXIT_CONFIG, steps=step, cause=unknown_objective(self._objective, metrics))
        value = metrics[self._objective]
        return Ending(EXIT_DONE, value if is_of("float", value) or is_of("int", value) else None, step)

    def evaluations(self) -> list[tuple[int, float]]:
        """Returns (step, value of the objective) of the evaluations since the last call."""
        if not self._evaluators:
            return []
        from ps_train.engine.run_directory.run_files import EVAL_DIRECTORY
        from ps_train.observe.progress.eval_events import read_eval_metrics

        found = read_eval_metrics(os.path.join(self._directory, MODEL, EVAL_DIRECTORY))
        new = [
            (step, metrics[self._objective])
            for step, metrics in found.items()
            if step not in self._evaluated and self._objective in metrics
        ]
        self._evaluated |= {step for step, _ in new}
        return new

    def stop(self) -> None:
        """Stops the job, which saves a checkpoint."""
        if not self._is_stopping:
            self._is_stopping = True
            for process in self._processes:
                process.stop(_STOP_SECS)

    def kill(self) -> None:
        """Kills the job, whose tasks end with it."""
        for process in self._processes:
            process.send(signal.SIGKILL)


@dataclasses.dataclass(frozen=True)
class Jobs:
    """The jobs of a study.

    Attributes:
      directory: the directory of the study.
      objective: name of the metric.
      arguments: flags of all jobs.
      verb: the verb and its options that come before the flags; empty for a cluster on this machine.
      seed: seed of the first execution of each trial; the next ones have the next seeds.
      evaluates: True if an evaluator scores the checkpoints of each job.
      forks: True if jobs may be forks of this process.
      tracked_as: the study as a tracker knows it; "" if jobs are not tracked.
      sources: the sources of the flags of all jobs.
      evaluator_arguments: flags of all evaluators; None if they are those of the jobs.
    """

    directory: str
    objective: str
    arguments: tuple[str, ...]
    verb: tuple[str, ...] = ()
    seed: int = 1
    evaluates: bool = False
    forks: bool = False
    tracked_as: str = ""
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    evaluator_arguments: tuple[str, ...] | None = None

    def start(self, trial: TrialRecord, execution: int) -> Execution:
        """Starts an execution of a trial, or lets it go on from its checkpoint."""
        directory = self.directory_of(trial.number, execution)
        os.makedirs(directory, exist_ok=True)
        own = self.own_flags(trial.flags, execution, os.path.join(directory, MODEL))
        environ = self.environment_of_trial(trial)
        start = functools.partial(ProgramProcess, environ=environ, forks=self.forks)
        job = functools.partial(start, [*self.verb, *self.arguments, *own], output=os.path.join(directory, OUTPUT))
        evaluators = []
        if self.evaluates:
            output = os.path.join(directory, _EVALUATOR_OUTPUT)
            shared = self.arguments if self.evaluator_arguments is None else self.evaluator_arguments
            evaluators = [functools.partial(start, [*shared, *own, "--job_name=evaluator"], output=output)]
        return JobExecution(directory, self.objective, job, evaluators)

    def directory_of(self, trial: int, execution: int) -> str:
        """Returns the directory of an execution."""
        return os.path.join(self.directory, TRIALS, f"{trial:04}", str(execution))

    def own_flags(self, flags: Sequence[str], execution: int, model_dir: str) -> list[str]:
        """Returns the flags of an execution beside those of all jobs: those of its trial, and its own."""
        own = [*flags, f"--seed={self.seed + execution}", f"--model_dir={model_dir}"]
        if not any(argument.startswith("--status_port") for argument in self.arguments):
            own.append("--status_port=-1")
        return own

    def environment_of_trial(self, trial: TrialRecord) -> dict[str, str]:
        """Returns the environment of a trial's job, which ends with this process."""
        tracked = {TRACK_PARENT: self.tracked_as, SOURCES_VARIABLE: self._sources_of(trial)} if self.tracked_as else {}
        return {**self._environment(), **tracked}

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != REPORT_VARIABLE}
        return {**kept, PARENT_VARIABLE: str(os.getpid()), "PYTHONUNBUFFERED": "1"}

    def _sources_of(self, trial: TrialRecord) -> str:
        """Returns the sources of the flags of a trial's job, as a tracker shows them."""
        sources = {**self.sources, "seed": f"study {self.tracked_as}", "model_dir": f"study {self.tracked_as}"}
        for flag in trial.flags:
            name, _, value = flag.removeprefix("--").partition("=")
            key = item_key(name, value) if name in repeated_fields(Job) else name
            sources[key] = f"trial {trial.number} of study {self.tracked_as}"
        return json.dumps(sources)


def unknown_objective(objective: str, metrics: Mapping[str, Any]) -> str:
    """Returns the text of the error for an objective that is not among the metrics of a job."""
    hint = nearest(objective, metrics)
    return f"--objective={objective} is not a metric of the model: {hint}use one of {', '.join(metrics)}."


def end_leftovers(directory: str, console: Console) -> None:
    """Ends the processes that a dead tuner has left, which stop by themselves if they can.

    Args:
      directory: the directory of the study.
      console: receives a line if there are any.

    Raises:
      ConfigError: they are on another host.
    """
    deadline = time.monotonic() + _STOP_SECS
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), TRIALS, "*", "*", _PROCESSES))):
        folder = os.path.dirname(path)
        name = os.path.relpath(folder, directory)
        for record in _read_records(folder):
            if process_exited(record):
                continue
            if record.host != socket.gethostname() or record.machine != host_identity():
                raise ConfigError(
                    f"process {record.pid} of {name} may still run on {record.host}: end it there, and remove {path}."
                )
            console.line(f"waiting for process {record.pid} of {name}, which an earlier tuner has left")
            _end(record, deadline)


def tuner_of(directory: str) -> str:
    """Returns the mark of the tuner that has a study's directory: where it was made, and a random number.

    A host may get another name and a directory another path, and two hosts may have directories of one path.
    """
    path = os.path.join(directory, _TUNER)
    with contextlib.suppress(OSError, UntrustedError):
        if found := read_text(path).strip():
            return found
    write_whole(path, f"{socket.gethostname()}:{directory} {secrets.token_hex(4)}\n")
    return read_text(path).strip()


def put_aside_trials(directory: str) -> str:
    """Renames the directory of trials that no study has; returns its new path, "" if there is none."""
    path = os.path.join(directory, TRIALS)
    if not os.path.isdir(path):
        return ""
    aside = next(name for number in itertools.count(1) if not os.path.exists(name := f"{path}.old-{number}"))
    os.rename(path, aside)
    return aside


def _end(record: _Record, deadline: float) -> None:
    """Waits until a process has ended, and kills it at the deadline."""
    has_stopped = False
    while not process_exited(record):
        if time.monotonic() > deadline:
            _signal(record, signal.SIGKILL)
        elif not has_stopped:  # without prctl it does not know that the tuner has died
            has_stopped = True
            if not sys.platform.startswith("linux"):
                _signal(record, signal.SIGTERM)
        time.sleep(_POLL_SECS)


def _signal(record: _Record, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if not process_exited(record):  # its pid may be another process's by now
            os.kill(record.pid, signum)


def _write_records(directory: str, pids: Sequence[int]) -> None:
    path = os.path.join(directory, _PROCESSES)
    host, machine = socket.gethostname(), host_identity()
    records = [dataclasses.asdict(_Record(host, machine, pid, start_time(pid))) for pid in pids]
    write_whole(path, json.dumps(records))


def _read_records(directory: str) -> list[_Record]:
    with contextlib.suppress(OSError, UntrustedError, TypeError, KeyError):
        found = parse_json(read_text(os.path.join(directory, _PROCESSES)))
        return [
            _Record(str(one["host"]), str(one["machine"]), int(one["pid"]), str(one["started"]))
            for one in found
            if is_of("int", one["pid"]) and one["pid"] > 0
        ]
    return []


def _cause(path: str, code: int) -> str:
    """Returns the cause of a failure, from the output of a process."""
    output = TaskOutput(_LAST_LINES)
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        for line in file:
            output.add(True, line.rstrip("\n"))
    if code < 0 or code > exit_code_of_signal(0):
        signum = -code if code < 0 else code - exit_code_of_signal(0)
        return f"its job was ended by {signal_name(signum)}"
    cause, _ = split_page(output.cause().removeprefix("ps_train: "))
    return cause if output.lines or output.error else f"its job {describe_exit(code)}"


def _last_step(model_dir: str) -> int:
    """Returns the step of the last checkpoint; 0 without one."""
    names = os.listdir(model_dir) if os.path.isdir(model_dir) else []
    return max((int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))), default=0)
