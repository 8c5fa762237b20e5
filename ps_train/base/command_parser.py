"""The parser of a command that has flags of its own: its errors are one line.

parser = CommandParser("python -m ps_train.launch", description=__doc__)
parser.add_argument("--hosts", required=True)
parser.parse_args([])           # ConfigError: … --hosts: see python -m ps_train.launch --help.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from ps_train.base.console import ERROR_BEGINS, Console
from ps_train.base.errors import EXIT_FAILED, ConfigError, PsTrainError


class CommandParser(argparse.ArgumentParser):
    """A parser that raises ConfigError with one line instead of ending the process, and takes no shortened flags.

    Args:
      prog: the command, as the user types it.
      others: further arguments of the base class.

    Attributes:
      option_names: names of the options, without their dashes.
    """

    def __init__(self, prog: str, **others: Any) -> None:
        others.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        self.option_names: list[str] = []
        super().__init__(prog, allow_abbrev=False, **others)

    def add_argument(self, *names: Any, **about: Any) -> argparse.Action:
        """Adds an option, as the base class does."""
        action = super().add_argument(*names, **about)
        self.option_names += [name.removeprefix("--") for name in action.option_strings]
        return action

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError with the message and the command that explains the flags."""
        raise ConfigError(f"{message}: see {self.prog} --help.")


def run_command(work: Callable[[], int], console: Console) -> int:
    """Runs a command; shows its error in one line.

    Args:
      work: the command; it returns its exit code.
      console: receives the error.

    Returns:
      The exit code.
    """
    try:
        return work()
    except PsTrainError as error:
        console.error(f"{ERROR_BEGINS}{error}")
        return error.exit_code
    except OSError as error:
        console.error(f"{ERROR_BEGINS}{error}")
        return EXIT_FAILED
