"""Runs a TensorFlow 1 script, as one task or as all tasks of a cluster on this machine.

    python -m ps_train run --num_ps=1 --num_workers=2 --compat train.py --steps=100
    python -m ps_train run --num_ps=1 --chief=master -m trainer.task --steps=100

With `--num_ps` or `--num_workers` the script is started once for each task.  Each task gets `TF_CONFIG`, and the flags
`--job_name --task_index --ps_hosts --worker_hosts` where the script defines them.  Without them the script runs once,
in this process, as it is.  With `--compat` its `import tensorflow as tf` has TensorFlow 1's names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from ps_train.base.command_parser import CommandParser, whole_number
from ps_train.base.console import Console
from ps_train.base.deprecations import ALL
from ps_train.base.deprecations import VARIABLE as DEPRECATIONS
from ps_train.base.errors import ConfigError, PsTrainError
from ps_train.base.network_interfaces import ALLOW_VARIABLE, refuse_public_ports
from ps_train.base.tf_import import LOG_LEVEL_VARIABLE, QUIET
from ps_train.compat.scripts import cluster_of_scripts
from ps_train.compat.scripts.cluster_of_scripts import ScriptJob
from ps_train.compat.scripts.script_process import run_script
from ps_train.config.error_line import error_line
from ps_train.config.verbs import VERBS

__all__ = ["main"]


def main(arguments: Sequence[str], console: Console) -> int:
    """Runs the script that the arguments name; returns the exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives messages.
    """
    try:
        given = command_line().parse_args(arguments)
        if given.allow_public_ports:
            os.environ[ALLOW_VARIABLE] = "1"  # the tasks read it
        is_cluster = given.num_ps is not None or given.num_workers is not None or given.chief or given.evaluator
        if not is_cluster:
            if not given.is_module and not os.path.isfile(given.script):
                raise ConfigError(f"the script {given.script} is not there: give the path of a file.")
            if given.verbose:
                os.environ[DEPRECATIONS] = ALL
            else:
                os.environ.setdefault(LOG_LEVEL_VARIABLE, QUIET)  # as the tasks of a whole cluster
            return run_script(given.script, given.arguments, given.compat, given.is_module)
        refuse_public_ports("the cluster of the script")  # also where its servers are TensorFlow's own
        job = ScriptJob(
            script=given.script,
            arguments=given.arguments,
            num_ps=1 if given.num_ps is None else given.num_ps,
            num_workers=2 if given.num_workers is None else given.num_workers,
            chief=given.chief,
            has_evaluator=given.evaluator,
            compat=given.compat,
            verbose=given.verbose,
            is_module=given.is_module,
        )
        return cluster_of_scripts.run(job, cluster_of_scripts.current_environment(), console)
    except PsTrainError as error:
        console.error(error_line(error, VERBS["run"].page))
        return error.exit_code


def command_line() -> CommandParser:
    """Returns the parser of the command line."""
    parser = CommandParser("python -m ps_train run", description=__doc__)
    parser.add_argument("--num_ps", type=whole_number(0), help="number of ps (1 if a cluster is asked for)")
    parser.add_argument("--num_workers", type=whole_number(1), help="number of workers, the chief included (2)")
    parser.add_argument(
        "--chief", action="store_const", const="chief", default="", help="the first worker is the job `chief`"
    )
    # Flags of their own: a value that may be left out would take the script.
    for name in ("chief", "master"):
        parser.add_argument(
            f"--chief={name}", dest="chief", action="store_const", const=name, help=f"the job's name is `{name}`"
        )
    parser.add_argument("--evaluator", action="store_true", help="starts an evaluator besides, as in TF_CONFIG")
    parser.add_argument("--compat", action="store_true", help="gives the script TensorFlow 1's names")
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="every task shows TensorFlow's warnings of deprecated names, not the first alone",
    )
    parser.add_argument(
        "--allow_public_ports", action="store_true", help="starts although this machine has a public address"
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="path of the script, or a module after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    return parser
