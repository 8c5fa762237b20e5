"""A whole cluster on this machine: the other roles are child processes of the launcher (`launcher.py`).

The launcher only imports TensorFlow for its children; it never uses it.  The children get reserved ports, and die with
the launcher.  A restarted child gets the same port.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Mapping, Sequence

from ps_train.base.children import ChildProcess
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, ConfigError
from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.commands.launch import fork
from ps_train.commands.launch.child_process import ForkTarget, start_child, task_arguments
from ps_train.commands.launch.launcher import Launcher
from ps_train.commands.launch.port_reservation import PortReservation
from ps_train.commands.launch.restart_policy import RestartPolicy
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.fault_spec import Schedule, parse
from ps_train.config.flags import TF_CONFIG
from ps_train.config.job import Job
from ps_train.config.tracker_check import told_sources


def run(job: Job, arguments: Sequence[str], environ: Mapping[str, str], console: Console, template: ForkTarget) -> int:
    """Runs the job as child processes; returns its exit code.

    Args:
      job: addresses and model_dir are chosen where it has none.
      arguments: the user's flags, passed on to the children.
      environ: the environment of the children.
      console: receives the output.
      template: the common part of the children.
    """
    ports = PortReservation()
    faults = parse(job.inject_fault)
    launcher = Launcher(console, RestartPolicy(job.max_restarts), Schedule(faults), job.log_dir)
    launcher.install_signals()
    code = _prepare(launcher, template, environ, console)
    if code is not None:
        return code
    arguments = [*arguments, *(["--status_port=0"] if job.status_port is None else [])]
    job, arguments = with_addresses(job, [*arguments, *_from_environment(job)], ports)
    arguments += [] if job.model_dir else [f"--model_dir={new_directory(job)}"]
    if (console.live or faults) and not any(a.startswith("--log_secs") for a in arguments):
        arguments.append("--log_secs=0.2" if faults else "--log_secs=0.5")
    environ = {**environ, **launcher.events_file.environment(), **told_sources(job, environ)}
    tasks = {f"ps:{i}": host for i, host in enumerate(job.ps_hosts)}
    tasks |= {f"chief:{i}": host for i, host in enumerate(job.chief_hosts)}
    tasks |= {f"worker:{i}": host for i, host in enumerate(job.worker_hosts)}
    begin = functools.partial(_start, arguments, environ, ports, template)
    starts = {name: functools.partial(begin, name, host) for name, host in tasks.items()}
    return launcher.run(starts, "chief:0" if "chief:0" in tasks else "worker:0")


def _prepare(launcher: Launcher, template: ForkTarget, environ: Mapping[str, str], console: Console) -> int | None:
    """Imports the modules of all children and checks the model in a first child.

    Returns:
      None if the children may start; else the exit code, after the cause is shown.
    """
    if not fork.can_fork():
        return None
    template.prepare()
    if not launcher.is_signalled():
        code, output, errors = fork.run_forked(template.check, dict(environ), launcher.is_signalled)
        if code != EXIT_DONE and not launcher.is_signalled():
            for line in output.splitlines():
                console.line(line)
            for line in errors.splitlines():
                console.error(line)
            return code if code > 0 else EXIT_FAILED
    return launcher.exit_code_of_signal() if launcher.is_signalled() else None


def _start(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    ports: PortReservation,
    template: ForkTarget,
    name: str,
    address: str,
    restarts_made: int,
) -> ChildProcess:
    """Starts a task as a child process."""
    if restarts_made:
        ports.reserve_again(address)
    own = task_arguments(arguments, name, restarts_made)
    return start_child(own, environ, ports.sockets.pop(address, None), template)


def with_addresses(job: Job, arguments: list[str], ports: PortReservation) -> tuple[Job, list[str]]:
    """Returns the job and arguments with host lists: the given ones, or free ports of this machine."""
    found = with_local_hosts(job, ports.reserve)
    if found is not job:
        numbers = ("--num_workers=", *(["--num_ps="] if found.ps_hosts else []))
        arguments = [argument for argument in arguments if not argument.startswith(numbers)]
        arguments += [f"--{name}={','.join(getattr(found, name))}" for name in HOST_LISTS if getattr(found, name)]
    return found, arguments


def _from_environment(job: Job) -> list[str]:
    """Returns the flags that say what TF_CONFIG says: the children do not get it, because it may name a task."""
    found = [name for name in (*HOST_LISTS, "model_dir") if job.sources.get(name) == TF_CONFIG]
    values = {name: getattr(job, name) for name in found}
    texts = {name: value if isinstance(value, str) else ",".join(value) for name, value in values.items()}
    return [*(f"--{name}={text}" for name, text in texts.items()), *(["--cluster_from=none"] if found else [])]


def directory_name(job: Job) -> str:
    """Returns the directory of a job that has no model_dir, relative to the working directory."""
    name = job.model.rpartition(":")[2].lower()
    return os.path.join("runs", f"{name}-{job.update}-{time.strftime('%Y%m%d-%H%M%S')}")


def new_directory(job: Job) -> str:
    """Makes a directory for this job alone; two jobs may start in the same second."""
    base = os.path.abspath(directory_name(job))
    path, numbers = base, itertools.count(2)
    while True:
        try:
            os.makedirs(path)
            return path
        except FileExistsError:
            path = f"{base}-{next(numbers)}"
        except OSError as error:
            raise ConfigError(f"{path} cannot be created ({error.strerror}): use --model_dir.") from None
