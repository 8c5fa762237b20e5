r"""Malformed lines: described, counted, and refused above a limit.

    bad_lines = BadLines(files, limit=100)
    bad_lines.add(file=0, position=4711, line=b"1\tx")      # None, or an error message above the limit

Standard library only.
"""

from __future__ import annotations

import logging
import pathlib
import re
import threading
from collections.abc import Sequence

from ps_train.data.criteo.format import COLUMNS, INTEGERS

log = logging.getLogger(__name__)

SHOWN = 5
"""The first bad lines are logged one by one; after them only the counts 10, 100, 1000 and so on."""

_MOST_SHOWN = 40

INTEGER = "-?[0-9]{1,18}"
CATEGORY = "[0-9a-fA-F]{1,8}"
LINE = f"[01](?:\t(?:{INTEGER})?){{{INTEGERS}}}(?:\t(?:{CATEGORY})?){{{COLUMNS - 1 - INTEGERS}}}"
"""Regular expression of a well-formed line, valid in Python and in TensorFlow."""


def describe_error(line: bytes) -> str:
    """Returns the first fault of a line that does not match LINE, for a message."""
    fields = line.decode("utf-8", "backslashreplace").split("\t")
    if len(fields) != COLUMNS:
        hint = ", as in a file without labels" if len(fields) == COLUMNS - 1 else ""
        return f"{len(fields)} columns instead of {COLUMNS}{hint}"
    if fields[0] not in ("0", "1"):
        return f"the label is {_shown(fields[0])} instead of 0 or 1"
    for number, field in enumerate(fields[1:], 1):
        if number <= INTEGERS and field and not re.fullmatch(INTEGER, field):
            return f"integer {number} is {_shown(field)}, which is not an integer of up to 18 digits"
        if number > INTEGERS and field and not re.fullmatch(CATEGORY, field):
            expected = "a hexadecimal number of up to 8 digits"
            return f"category {number - INTEGERS} is {_shown(field)}, which is not {expected}"
    return "nothing"


class BadLines:
    """A counter of the bad lines that a process has read; each line counts once over all epochs.

    Attributes:
      limit: number of allowed lines.
      count: number of lines so far.
    """

    def __init__(self, files: Sequence[pathlib.Path], limit: int) -> None:
        self.limit = limit
        self._files = files
        self._seen: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Number of bad lines so far, each counted once."""
        return len(self._seen)

    def add(self, file: int, position: int, line: bytes) -> str | None:
        """Counts a bad line, and returns an error message if it exceeds the limit, else None.

        Args:
          file: index of the file.
          position: byte offset in a plain file, line number from 0 in a gzipped file.
          line: the line.
        """
        with self._lock:
            if (file, position) in self._seen:
                return None
            self._seen.add((file, position))
            where = self._where(file, position)
            if self.count > self.limit:
                return (
                    f"{where}: {describe_error(line)}. That is malformed line number {self.count}, and "
                    f"max_bad_lines={self.limit}: correct the data or raise max_bad_lines."
                )
            if self.count <= SHOWN:
                log.warning("%s: %s; the line is skipped", where, describe_error(line))
            elif self.count in (10**power for power in range(1, 12)):
                log.warning("%d malformed lines are skipped so far, the last one %s", self.count, where)
            return None

    def _where(self, file: int, position: int) -> str:
        path = self._files[file]
        return f"{path} line {position + 1}" if path.suffix == ".gz" else f"{path} at about byte {position}"


def _shown(field: str) -> str:
    return repr(field if len(field) <= _MOST_SHOWN else field[:_MOST_SHOWN] + "...")
