"""Events that only the launcher of a cluster on one machine knows: faults on purpose, and restarts.

The launcher appends them to a file that ENVIRONMENT names; the chief reads what is new.
"""

from __future__ import annotations

import contextlib
import os

from ps_train.base.event_file import ENVIRONMENT
from ps_train.base.lifecycle import Event, Recorder
from ps_train.base.untrusted import UntrustedError, as_record, parse_json

_MOST_BYTES = 1 << 20
"""The most that is read at a time."""


class LauncherEvents:
    """Reader of the launcher's events.

    Args:
      recorder: gets the events.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._position = recorder, 0
        self._path = os.environ.get(ENVIRONMENT, "")

    def read(self) -> None:
        """Takes in the events since the last reading; ignores a line that is not whole yet."""
        if not self._path:
            return
        try:
            with open(self._path, "rb") as file:
                file.seek(self._position)
                lines = file.read(_MOST_BYTES).splitlines(keepends=True)
        except OSError:
            return
        for line in lines:
            if not line.endswith(b"\n"):
                return
            self._position += len(line)
            with contextlib.suppress(UntrustedError):
                self._recorder.add(as_record(Event, parse_json(line)))
