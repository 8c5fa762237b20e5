"""Checks this host, and the way to the others, before a job is started: `python -m ps_train doctor`, flags of the job.

    python -m ps_train doctor --model=my.module:Net --num_ps=2 --num_workers=4       # a job on this machine
    python -m ps_train doctor --flagfile=job.flags                                   # which task would this host be?
    python -m ps_train doctor --flagfile=job.flags --job_name=worker --task_index=0  # on every host at the same time

It prints one line for each finding, and ends with 0, or with 2 if the job cannot start or cannot succeed.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from ps_train.base.command_parser import CommandParser
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, ConfigError, PsTrainError, exit_code_of_signal
from ps_train.base.tf_import import import_tensorflow
from ps_train.base.user_code import describe
from ps_train.cluster.addresses import environment
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.commands.doctor.findings import Report
from ps_train.commands.doctor.options import Options
from ps_train.commands.doctor.run import Visit
from ps_train.commands.launch.child_process import die_with_launcher
from ps_train.config import flags
from ps_train.config.error_line import error_line
from ps_train.config.verbs import VERBS

_PLAN_ONLY = re.compile(r"--?(no)?plan_only(?:=(\w+))?")
_WAIT = re.compile(r"--?wait_secs(?:=(.*))?")
_POLL_SECS = 0.2


def main(arguments: Sequence[str], console: Console) -> int:
    """Runs the doctor; returns 0 or 2.

    Args:
      arguments: the command line without the program's name.
      console: receives the findings.
    """
    if any(argument.lstrip("-") in ("help", "h", "helpfull") and argument[:1] == "-" for argument in arguments):
        console.line(command_line().format_help().rstrip())
        return EXIT_DONE
    environ = dict(os.environ)
    try:
        options, rest = parse_options(arguments)
        parsed = parse_flags(rest, environ)
        if parsed.task.job_name != "local":
            flags.with_task(parsed.task)
    except PsTrainError as error:
        console.error(error_line(error, VERBS["doctor"].page))
        return ConfigError.exit_code
    report = Report(console)
    try:
        _visit(parsed, options, report, environ)
    except Exception as error:
        report.fail("doctor", describe(error))
    console.line(report.summary())
    return report.exit_code


def command_line() -> CommandParser:
    """Returns the parser that describes the doctor's own flags; `parse_options` reads them, in all forms of absl."""
    parser = CommandParser("python -m ps_train doctor", description=__doc__)
    parser.add_argument("--plan_only", action="store_true", help="only the plan and this host; no network, no servers")
    parser.add_argument(
        "--wait_secs", help="seconds to wait for the doctors of other hosts [startup_timeout_secs, at most 60]"
    )
    parser.epilog = "All other flags are those of the job: python -m ps_train --help."
    return parser


def parse_options(arguments: Sequence[str]) -> tuple[Options, list[str]]:
    """Returns the doctor's own flags, and the other arguments; raises ConfigError for a wrong value."""
    plan_only = False
    wait: float | None = None
    rest, pending = [], list(arguments)
    while pending:
        argument = pending.pop(0)
        if (found := _PLAN_ONLY.fullmatch(argument)) is not None:
            text = (found[2] or "true").lower()
            if text not in ("true", "false", "1", "0", "yes", "no"):
                raise ConfigError(f"plan_only={found[2]} (from the command line) is not valid: use true or false.")
            plan_only = (text in ("true", "1", "yes")) != bool(found[1])
        elif (found := _WAIT.fullmatch(argument)) is not None:
            text = found[1] if found[1] is not None else pending.pop(0) if pending else ""
            wait = _seconds(text)
        else:
            rest.append(argument)
    return Options(plan_only, wait), rest


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e6:
        raise ConfigError(
            f"wait_secs={text or repr(text)} (from the command line) is not valid: use a number from 0 to 1e6."
        )
    return value


def _visit(parsed: flags.ParsedFlags, options: Options, report: Report, environ: dict[str, str]) -> None:
    """Makes all checks, those without TensorFlow first; its import takes seconds."""
    task = parsed.task if parsed.task.job_name == "local" else flags.with_task(parsed.task)
    visit = Visit(flags.ParsedFlags(parsed.job, task, parsed.given), options, report, environ)
    visit.before_tensorflow()
    if any(finding.subject == "job" for finding in report.failures):
        return
    job = parsed.job
    if task.job_name == "local":
        job = with_local_hosts(job)
        task = Cluster.of(job).chief
    changes = environment.task_environment(task, job, environ, len(os.sched_getaffinity(0)))
    environment.apply(changes, os.environ)
    logging.getLogger("ps_train").setLevel(logging.ERROR)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    import_tensorflow(parsed.job.verbose)
    visit.with_tensorflow()


def run(arguments: Sequence[str], console: Console) -> NoReturn:
    """Runs the doctor in a thread; the main thread waits for signals, and a signal ends all at once.

    Args:
      arguments: the command line without the program's name.
      console: receives the findings.
    """
    die_with_launcher()
    codes = list[int]()

    def end(signum: int, frame: object) -> None:
        os._exit(exit_code_of_signal(signum))

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, end)
    work = threading.Thread(target=lambda: codes.append(main(arguments, console)), daemon=True)
    work.start()
    while work.is_alive():
        work.join(_POLL_SECS)
    sys.stdout.flush()
    os._exit(codes[0] if codes else 1)  # TensorFlow's servers cannot be shut down
