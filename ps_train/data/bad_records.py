"""Malformed records of the input: counted, shown, and refused above a limit.

    bad = BadRecords("line", limit=100)
    bad.add((0, 4711), lambda: "train.csv line 36: 4 columns instead of 3")     # None, or an error above the limit

Standard library only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable

from ps_train.base.errors import DataError

log = logging.getLogger(__name__)

MAX_BAD_RECORDS = 100
"""Default number of malformed records that one process skips before it fails."""

SHOWN = 5
"""The first bad records are logged one by one; after them only the counts 10, 100, 1000 and so on."""


class BadRecords:
    """A counter of the malformed records that a process has read; each counts once over all epochs.

    Args:
      kind: "line" or "record", for messages.
      limit: number of records that may be skipped.

    Attributes:
      limit: number of records that may be skipped.

    Raises:
      DataError: the limit is below 0.
    """

    def __init__(self, kind: str, limit: int = MAX_BAD_RECORDS) -> None:
        if limit < 0:
            raise DataError(f"max_bad_lines={limit} is not valid: use a number of at least 0.")
        self.limit = limit
        self._kind = kind
        self._seen: set[Hashable] = set()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[BadRecords], tuple[str, int]]:
        return BadRecords, (self._kind, self.limit)  # another process counts the records that it reads

    @property
    def count(self) -> int:
        """Number of malformed records so far."""
        return len(self._seen)

    def __contains__(self, place: Hashable) -> bool:
        return place in self._seen

    def add(self, place: Hashable, describe: Callable[[], str]) -> str | None:
        """Counts a malformed record, and returns an error message if it exceeds the limit, else None.

        Args:
          place: identifies the record.
          describe: returns where the record is and its fault; called if this is shown.
        """
        with self._lock:
            if place in self._seen:
                return None
            if self.count >= self.limit:  # not counted, so every call says it
                return (
                    f"{describe()}. That is malformed {self._kind} number {self.count + 1}, and "
                    f"max_bad_lines={self.limit}: correct the data or raise max_bad_lines."
                )
            self._seen.add(place)
            if self.count <= SHOWN:
                log.warning("%s; the %s is skipped", describe(), self._kind)
            elif self.count in (10**power for power in range(1, 12)):
                log.warning("%d malformed %ss are skipped so far, the last: %s", self.count, self._kind, describe())
            return None
