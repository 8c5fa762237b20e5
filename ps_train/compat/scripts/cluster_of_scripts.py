"""A script run as all tasks of a cluster on this machine.

    code = run(ScriptJob("train.py", ["--steps=100"], num_ps=1, num_workers=2), os.environ, console)

Each task is a child process with its own `TF_CONFIG` and classic flags.  The job is over when all workers have ended;
the ps are then ended.  The first failure ends all tasks and is reported as the cause.  Standard library only.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import signal
from collections.abc import Mapping, Sequence

from ps_train.base.children import describe_exit, shell_code
from ps_train.base.console import Console
from ps_train.base.deprecations import ALL, NONE
from ps_train.base.deprecations import VARIABLE as DEPRECATIONS
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, JobFailedError, exit_code_of_signal, with_page
from ps_train.base.tf_import import LOG_LEVEL_VARIABLE, QUIET, import_tensorflow
from ps_train.commands.launch import fork
from ps_train.commands.launch.child_process import Child, start_process
from ps_train.commands.launch.port_reservation import PortReservation
from ps_train.commands.launch.supervisor import GRACE_SECS, ChildSupervisor
from ps_train.compat.scripts import coordinated
from ps_train.compat.scripts.program_kind import kind_of
from ps_train.compat.scripts.script_flags import defined_flags, script_texts, task_flags, tf_config
from ps_train.compat.scripts.script_process import run_forked_script

PS_GRACE_SECS = 5.0
"""Seconds that a ps has to end by itself after the last worker."""

_LAST_LINES = 5

_ECHO = re.compile(r"got signal \d+[:;]|the job was stopped by a signal")
"""A warning of a task that the launcher ends."""


@dataclasses.dataclass(frozen=True)
class ScriptJob:
    """A script and the cluster that runs it.

    Attributes:
      script: path of the script, or the name of a module.
      arguments: of every task.
      num_ps: the number of ps.
      num_workers: the number of workers, the chief included.
      chief: the name of the first worker's own job, `chief` or `master`; "" if it is worker 0.
      has_evaluator: whether there is an evaluator besides.
      compat: whether the script gets the facade of TensorFlow 1's modules.
      verbose: whether every task shows TensorFlow's warnings of deprecated names, not the first one alone.
      is_module: whether `script` is the name of a module.
    """

    script: str
    arguments: Sequence[str]
    num_ps: int = 1
    num_workers: int = 2
    chief: str = ""
    has_evaluator: bool = False
    compat: bool = False
    verbose: bool = False
    is_module: bool = False

    def job_sizes(self) -> dict[str, int]:
        """Returns the number of tasks of each job of the cluster."""
        chiefs = {self.chief: 1} if self.chief else {}
        sizes = {"ps": self.num_ps, **chiefs, "worker": self.num_workers - len(chiefs)}
        return {name: size for name, size in sizes.items() if size}


def run(job: ScriptJob, environ: Mapping[str, str], console: Console) -> int:
    """Runs the script as all tasks; returns 0, or the exit code of the first failure.

    Args:
      job: the script and its cluster.
      environ: the environment of the tasks.
      console: receives their output, each line after the name of its task.

    Raises:
      ConfigError: the script cannot be read.
    """
    return _ClusterRun(job, console).run(environ)


class _ClusterRun(ChildSupervisor):
    def __init__(self, job: ScriptJob, console: Console) -> None:
        super().__init__(console, _LAST_LINES)
        self._texts = script_texts(job.script, job.is_module)
        self._kind = kind_of(self._texts)
        self._has_coordinator = self._kind.has_coordinator and not job.compat
        self._job = dataclasses.replace(job, chief=job.chief or "chief") if self._has_coordinator else job
        self._asked_in: Mapping[str, str] | None = None

    def run(self, environ: Mapping[str, str]) -> int:
        if self._job.compat:
            self._kind.refuse_graphs(self._job.script)
        if self._job.compat or not self._kind.trains_by_fit:
            return self._run(environ)
        with coordinated.asked_in(environ, self._has_coordinator) as self._asked_in:
            return self._run(self._asked_in)

    def _run(self, environ: Mapping[str, str]) -> int:
        self.install_signals()
        if fork.can_fork():
            os.environ.update(environ)  # TensorFlow reads some variables once, at its import
            import_tensorflow(verbose=False)  # once for all tasks
        self.supervise(lambda: self._start_all(environ))
        return self._report()

    def is_echo(self, line: str) -> bool:
        return _ECHO.search(line) is not None

    def ended(self, child: Child, code: int) -> None:
        self.running.discard(child.name)
        if code != EXIT_DONE:
            self.failed = child
            self.begin_shutdown(GRACE_SECS)
            self.send_all(signal.SIGTERM)
            return
        if self._asked_in is not None and child.name == f"{self._job.chief or 'worker'}:0":
            coordinated.end(self._asked_in)
        if all(other.startswith("ps:") for other in self.running):
            self.begin_shutdown(PS_GRACE_SECS)

    def _start_all(self, environ: Mapping[str, str]) -> None:
        ports = PortReservation()
        cluster = {name: [ports.reserve() for _ in range(size)] for name, size in self._job.job_sizes().items()}
        holds = self._job.compat or self._kind.trains_by_fit or any("ps_train" in text for text in self._texts)
        for job_name, addresses in cluster.items():
            for index, address in enumerate(addresses):
                with ports.sockets[address] as reserved:  # closed at once: the task may be fast
                    if not holds:  # a server of TensorFlow itself does not take over a reserved port
                        reserved.close()
                    self._start(cluster, job_name, index, environ, reserved.fileno() if holds else None)
        if self._job.has_evaluator:
            self._start(cluster, "evaluator", 0, environ, None)

    def _start(
        self, cluster: Mapping[str, list[str]], job_name: str, index: int, environ: Mapping[str, str], held: int | None
    ) -> None:
        environment = {**environ, "TF_CONFIG": tf_config(cluster, job_name, index)}
        name = f"{job_name}:{index}"
        if self._job.verbose:
            environment[DEPRECATIONS] = ALL
        elif name != f"{self._job.chief or 'worker'}:0":
            environment.setdefault(DEPRECATIONS, NONE)
        script, compat, given, is_module = self._job.script, self._job.compat, self._job.arguments, self._job.is_module
        arguments = [*given, *task_flags(defined_flags(self._texts), given, cluster, job_name, index)]
        work = functools.partial(run_forked_script, script, arguments, compat, is_module)
        flags = [*(["--compat"] if compat else []), *(["-m"] if is_module else [])]
        command = ["ps_train", "run", *flags, script, *arguments]
        self.add(name, start_process(work, command, environment, held))

    def _report(self) -> int:
        if self.signals:
            return exit_code_of_signal(self.signals[0])
        if self.failed is None:
            return EXIT_DONE
        failed = self._first_to_fail(self.failed)
        code = failed.process.wait() if failed is self.failed else EXIT_FAILED  # another one may have been ended since
        cause = failed.output.cause()
        line = f"ps_train: {failed.name} {describe_exit(code)}, and so the job failed: {cause}"
        self.console.error(with_page(line, failed.output.page or JobFailedError.page))
        return shell_code(code) or EXIT_FAILED

    def _first_to_fail(self, ended: Child) -> Child:
        """Returns the task with the first error: its process may end after one that failed because of it.

        Args:
          ended: the task whose process was the first to fail; one that a signal ended, or without an error, is the
            first.
        """
        if ended.output.error_time == float("inf"):
            return ended
        failed = [child for child in self.children.values() if child.process.wait() != EXIT_DONE]
        return min([ended, *failed], key=lambda child: child.output.error_time)


def current_environment() -> dict[str, str]:
    """Returns this process's environment, with TensorFlow's log for errors only unless it says otherwise."""
    return {LOG_LEVEL_VARIABLE: QUIET, **os.environ}
