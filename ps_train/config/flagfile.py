"""Flagfiles: one flag a line, each with the file and line where it stands.

    for line in read_flagfile("flags/job.flags"):
        line.argument, line.source         # "--max_steps=7", "flags/job.flags:3"

`#` begins a comment, in the first column or after a space.  A value in quotes may contain ` #`.  A line may also be
`--name value`, and `--flagfile=PATH` reads another file there.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Iterator, Sequence

from ps_train.base.errors import ConfigError
from ps_train.base.untrusted import read_text

_QUOTED = re.compile(r"""(?P<name>--?\w+)(?:\s*=\s*|\s+)(?P<quote>["'])(?P<value>.*?)(?P=quote)\s*(?:(?:#|//\s).*)?""")
_MOST_BYTES, _MOST_FILES, _MOST_DEPTH = 1 << 20, 1000, 20
_PIPE_SECS = 10.0
_COMMENT = re.compile(r"(?:^|\s+)(?:#|//\s).*$|^//.*$")


@dataclasses.dataclass(frozen=True)
class FlagLine:
    """A flag of a flagfile.

    Attributes:
      argument: `--name=value`.
      source: `PATH:LINE`.
    """

    argument: str
    source: str


def flagfile_of(argument: str) -> str | None:
    """Returns the path in `--flagfile=PATH`, "" for `--flagfile` alone, or None for another argument."""
    name, _, value = argument.lstrip("-").partition("=")
    return value if argument.startswith("-") and name == "flagfile" else None


def read_flagfile(
    path: str,
    within: Sequence[str] = (),
    source: str = "the command line",
    count: Iterator[int] | None = None,
) -> Iterator[FlagLine]:
    """Reads a flagfile and those that it names.

    Args:
      path: path of the file.
      within: the files that are being read and led to this one.
      source: the place that names this file.
      count: the number of files that were read before.

    Raises:
      ConfigError: a file cannot be read, reads itself, or reads too many.
    """
    count = itertools.count() if count is None else count
    expanded = os.path.expanduser(path)
    if os.path.realpath(expanded) in within:
        raise ConfigError(f"flagfile {path} (from {source}) reads itself: remove this line.")
    if len(within) >= _MOST_DEPTH or next(count) >= _MOST_FILES:
        most = f"{_MOST_DEPTH} in one another or {_MOST_FILES} in all"
        raise ConfigError(f"flagfile {path} (from {source}) is one too many: use fewer than {most}.")
    for number, line in enumerate(_text_of(expanded, source).splitlines(), 1):
        argument = _argument_of(line)
        nested = flagfile_of(argument)
        place = f"{path}:{number}"
        if nested == "":
            raise ConfigError(f"--flagfile (from {place}) has no value: use --flagfile=PATH.")
        if nested:
            yield from read_flagfile(nested, [*within, os.path.realpath(expanded)], place, count)
        elif argument:
            yield FlagLine(argument, place)


def _text_of(path: str, source: str) -> str:
    try:
        text = read_text(path, _MOST_BYTES, _PIPE_SECS)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"flagfile {path} (from {source}) cannot be read ({cause}): use the path of a text file."
        ) from None
    if "\0" in text:
        raise ConfigError(
            f"flagfile {path} (from {source}) is not a text file: use a file with one --name=value a line."
        )
    return text


def _argument_of(line: str) -> str:
    """Returns `--name=value` of a line without its comment; "" for an empty line."""
    line = line.strip()
    if found := _QUOTED.fullmatch(line):
        return f"{found['name']}={found['value']}"
    line = _COMMENT.sub("", line).strip()
    name, *value = line.split(None, 1)[:2] if line else [""]
    if name.startswith("-") and "=" not in name and value:
        return f"{name}={value[0].removeprefix('=').strip()}"
    return line
