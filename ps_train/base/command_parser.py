"""The parser of a command that has flags of its own: its errors are one line.

parser = CommandParser("python -m ps_train launch", description=__doc__)
parser.add_argument("--hosts", required=True)
parser.parse_args([])           # ConfigError: … --hosts: see python -m ps_train launch --help.
"""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Callable
from typing import Any, NoReturn

from ps_train.base.errors import ConfigError


class CommandParser(argparse.ArgumentParser):
    """A parser that raises ConfigError with one line instead of ending the process, and takes no shortened flags.

    Args:
      prog: the command, as the user types it.
      others: further arguments of the base class.

    Attributes:
      added: the options and positional arguments.
    """

    def __init__(self, prog: str, **others: Any) -> None:
        others.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        self.added: list[argparse.Action] = []
        super().__init__(prog, allow_abbrev=False, **others)

    def add_argument(self, *names: Any, may_be_empty: bool = False, **about: Any) -> argparse.Action:
        """Adds an option, as the base class does.

        Args:
          *names: its names, or that of a positional argument.
          may_be_empty: allows an empty text, which an unset variable of a shell gives.
          **about: further arguments of the base class.
        """
        is_text = not {"type", "choices"} & about.keys() and about.get("action", "store") in ("store", "append")
        if is_text and not may_be_empty and about.get("nargs") != argparse.REMAINDER:
            about["type"] = functools.partial(_not_empty, names[-1])
            if about.get("default") == "":
                about["default"] = _Default()
        action = super().add_argument(*names, **about)
        self.added.append(action)
        return action

    @property
    def option_names(self) -> list[str]:
        """The names of the options, without their dashes."""
        return [name.removeprefix("--") for action in self.added for name in action.option_strings]

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError with the message and the command that explains the flags."""
        raise ConfigError(f"{message}: see {self.prog} --help.")


class _Default(str):
    """The empty text as a default, which argparse converts as it does a given text."""


def whole_number(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """Returns the type of an option that is a whole number, for `add_argument`."""

    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,10}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"{text or repr(text)} is not a whole number of at least {least} and at most {most}"
            )
        return int(text)

    return parse


def _not_empty(name: str, text: str) -> str:
    """Returns the text; raises ConfigError for an empty one that is not the default."""
    if not text and not isinstance(text, _Default):
        about = name if name.startswith("-") else name.upper()
        raise ConfigError(f"{about} is empty, as is an unset variable: give it a value, or leave it out.")
    return str(text)
