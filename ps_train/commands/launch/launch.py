"""Starts all tasks of a job on several hosts, over the user's own ssh.

    python -m ps_train launch --hosts=a:ps,b:worker*2,c:worker*2 -- --model=net:Net --max_steps=5000

Their output is merged, each line after the name of its task; the chief's has no name.  Ctrl-C and SIGTERM save a
checkpoint and end the job.  The first failure ends it and is shown as the cause; --max_restarts=3 restarts the task
instead.  When the launcher or a connection dies, the processes there end.  help: hosts#over-ssh
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from ps_train.base.command_parser import CommandParser, whole_number
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, ConfigError, PsTrainError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.commands.launch.child_process import task_arguments
from ps_train.commands.launch.hosts import RemoteTask, parse_hosts
from ps_train.commands.launch.launcher import Launcher
from ps_train.commands.launch.local import directory_name
from ps_train.commands.launch.restart_policy import RestartPolicy
from ps_train.commands.launch.ssh import DEFAULT_SSH, Remote, SshProcess
from ps_train.config import flags
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.error_line import error_line
from ps_train.config.fault_spec import Schedule, check_tasks, parse
from ps_train.config.job import Job
from ps_train.config.paths import working_directory
from ps_train.config.tracker_check import TRACK_PARENT, told_sources
from ps_train.config.verbs import VERBS

_OWN = (*HOST_LISTS, "job_name", "task_index", "num_ps", "num_workers", "cluster_file", "cluster_from", "hostfile")
"""Flags of a job that --hosts stands for."""


def main(arguments: Sequence[str], console: Console) -> int:
    """Runs the job; returns its exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives the output of all tasks.
    """
    try:
        cut = list(arguments).index("--") if "--" in arguments else len(arguments)
        options, given = command_line().parse_known_args(arguments[:cut])
        return _run(options, [*given, *arguments[cut + 1 :]], console)
    except PsTrainError as error:
        console.error(error_line(error, VERBS["launch"].page))
        return error.exit_code


def flags_of_job(arguments: Sequence[str]) -> list[str]:
    """Returns the flags of the job in a command line of this command; raises ConfigError if an option is wrong."""
    options, given = command_line().parse_known_args(arguments)
    parse_hosts(options.hosts, options.port)
    return given


def options() -> list[str]:
    """Returns the names of the options of this command."""
    return command_line().option_names


def _run(options: argparse.Namespace, given: Sequence[str], console: Console) -> int:
    parsed = flags.parse(given, {})
    tasks = parse_hosts(options.hosts, options.port)
    for name in _OWN:
        if name in parsed.given:
            raise ConfigError(f"--{name} has no place beside --hosts, which describes the cluster: drop it.")
    job = _with_hosts(parsed.job, tasks)
    faults = parse(job.inject_fault)
    check_tasks(faults, list(Cluster.of(job).tasks()))
    passed = {name: value for name, value in parsed.given.items() if name not in ("max_restarts", "inject_fault")}
    passed |= {name: getattr(job, name) for name in HOST_LISTS if getattr(job, name)}
    passed |= {"model_dir": (parsed.job.model_dir and parsed.given["model_dir"]) or directory_name(job)}
    if console.live or faults:
        passed = {"log_secs": 0.2 if faults else 0.5, **passed}
    told = {TRACK_PARENT: os.environ[TRACK_PARENT]} if os.environ.get(TRACK_PARENT) else {}
    environ = {**told, **told_sources(job, os.environ), **_environment(options.env)}
    remote = Remote(_words(options.ssh), options.python, options.cwd, environ, options.timeout_secs)
    start = functools.partial(_start, remote, [*flags.as_arguments(passed), "--cluster_from=none"])
    if options.dry_run:
        for task in tasks:
            console.line(shlex.join(start(task)))
        return EXIT_DONE
    if job.log_dir:
        try:
            os.makedirs(job.log_dir, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"log_dir={job.log_dir} cannot be made ({error.strerror}): use another directory."
            ) from None
    launcher = Launcher(console, RestartPolicy(job.max_restarts), Schedule(faults), job.log_dir)
    launcher.install_signals()
    console.line("tasks: " + ", ".join(f"{task.name} on {task.host} ({task.address})" for task in tasks))
    starts = {task.name: functools.partial(_start_process, start, task) for task in tasks}
    return launcher.run(starts, "chief:0" if "chief:0" in starts else "worker:0")


def _with_hosts(job: Job, tasks: Sequence[RemoteTask]) -> Job:
    lists: dict[str, tuple[str, ...]] = dict.fromkeys(HOST_LISTS, ())
    for task in tasks:
        lists[f"{task.name.partition(':')[0]}_hosts"] += (task.address,)
    changes: dict[str, Any] = {**lists, "sources": {**job.sources, **dict.fromkeys(lists, "--hosts")}}
    return dataclasses.replace(job, **changes)


def _start(remote: Remote, arguments: Sequence[str], task: RemoteTask, restarts_made: int = 0) -> list[str]:
    """Returns the command that starts a task."""
    return remote.command(task.host, task_arguments(arguments, task.name, restarts_made))


def _start_process(command: Any, task: RemoteTask, restarts_made: int) -> SshProcess:
    return SshProcess(command(task, restarts_made))


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--ssh={text} is not a command ({error}): use for example --ssh='ssh -p 2200'.") from None
    if not words:
        raise ConfigError("--ssh is empty: use for example --ssh='ssh -p 2200'.")
    return words


def _environment(given: Sequence[str]) -> dict[str, str]:
    """Returns the variables of --env; a name without a value stands for the value here."""
    found = {"PYTHONPATH": os.environ["PYTHONPATH"]} if os.environ.get("PYTHONPATH") else {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not name.isidentifier() or not (equals or name in os.environ):
            raise ConfigError(f"--env={entry} is not valid: use NAME=VALUE, or the NAME of a variable of this process.")
        found[name] = value if equals else os.environ[name]
    return found


def command_line() -> CommandParser:
    """Returns the parser of the command line."""
    parser = CommandParser("python -m ps_train launch", description=__doc__)
    add = parser.add_argument
    add("--hosts", required=True, help="the cluster: [USER@]HOST[=ADDRESS]:ROLE[*COUNT],...; roles: ps, worker, chief")
    add(
        "--port",
        type=whole_number(1, 65535),
        default=2222,
        help="first port of each host; its tasks have consecutive ports [2222]",
    )
    add("--ssh", default=DEFAULT_SSH, help=f"the command that gets a host and a command line [{DEFAULT_SSH}]")
    add("--python", default=sys.executable, help="the Python interpreter on the hosts [the one of this command]")
    add("--cwd", default=working_directory(), help="the working directory on the hosts [the present one]")
    add("--env", action="append", default=[], help="NAME=VALUE or NAME: a variable for the tasks [PYTHONPATH, if set]")
    add(
        "--timeout_secs",
        type=_seconds,
        default=30.0,
        help="a host without a sign of life from here for so long ends its tasks [30]",
    )
    add("--dry_run", action="store_true", help="prints the commands, and starts nothing")
    parser.epilog = "All flags of the job are possible too, also after --: python -m ps_train --help."
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 5 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: use 5 to 1e6 seconds")
    return value
