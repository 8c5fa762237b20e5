"""The verbs of `python -m ps_train`: the programs beside the training, each with the function that runs it.

VERBS["doctor"].load()(["--num_ps=1"], console)     # the exit code
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ps_train.base.command_parser import CommandParser
from ps_train.base.console import Console


class Verb(NamedTuple):
    """A program beside the training.

    Attributes:
      about: what it does, for the help.
      page: page of the documents, and its heading, that explain it.
      module: name of the module that has it.
      function: name of the function that runs it, in the module.
      parser: name of the function there that returns the parser of its flags; "" without flags of its own.
    """

    about: str
    page: str
    module: str
    function: str
    parser: str = ""

    def load(self) -> Callable[[Sequence[str], Console], int]:
        """Imports the module; returns the function of the arguments and the console that gives the exit code."""
        found: Callable[[Sequence[str], Console], int] = getattr(importlib.import_module(self.module), self.function)
        return found

    def load_parser(self) -> CommandParser | None:
        """Imports the module; returns the parser of the verb's own flags."""
        return getattr(importlib.import_module(self.module), self.parser)() if self.parser else None


VERBS = {
    "apply": Verb(
        "makes the next checkpoint or export of a base and its deltas",
        "serve#deltas",
        "ps_train.commands.deltas.delta",
        "apply",
        "apply_command_line",
    ),
    "compare": Verb(
        "compares two exported models on the same rows",
        "serve#compare-two-models",
        "ps_train.commands.scoring.compare",
        "compare",
        "command_line",
    ),
    "delta": Verb(
        "writes what has changed between two checkpoints or exports",
        "serve#deltas",
        "ps_train.commands.deltas.delta",
        "delta",
        "delta_command_line",
    ),
    "doctor": Verb(
        "checks this host, and the way to the others, before a job is started",
        "troubleshoot#it-does-not-start",
        "ps_train.commands.doctor.doctor",
        "run",
        "command_line",
    ),
    "firewall": Verb(
        "closes the ports of a job to other hosts",
        "SECURITY#firewall",
        "ps_train.commands.firewall.firewall",
        "main",
        "command_line",
    ),
    "help": Verb(
        "shows the pages of the documents",
        "start#where-to-go-next",
        "ps_train.commands.help.help",
        "help",
        "command_line",
    ),
    "launch": Verb(
        "starts all tasks of a job on several hosts, over ssh",
        "hosts#over-ssh",
        "ps_train.commands.launch.launch",
        "main",
        "command_line",
    ),
    "predict": Verb(
        "predicts for the rows of files with an exported model",
        "serve#score-files",
        "ps_train.commands.scoring.predict",
        "predict",
        "command_line",
    ),
    "run": Verb(
        "runs a TensorFlow 1 script, as one task or as all tasks of a cluster",
        "migrate#from-raw-tftrain-scripts",
        "ps_train.compat.scripts.run",
        "main",
        "command_line",
    ),
    "tune": Verb(
        "searches for the best flags of a job, with whole jobs",
        "search#the-space",
        "ps_train.commands.tuning.tune",
        "tune",
        "command_line",
    ),
}
"""Name to verb; a verb's module is imported when the verb is used."""
