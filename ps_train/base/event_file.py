"""A file in which the launcher tells the chief of its own events: faults on purpose, and restarts.

events = EventFile()
environ = {**environ, **events.environment()}
events.add("fault", "worker:1", "kill:worker:1@200 strikes at step 203")
events.close()
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
import time

from ps_train.base.lifecycle import Event

ENVIRONMENT = "PS_TRAIN_LAUNCHER_EVENTS"
"""Environment variable with the path of the file."""


class EventFile:
    """The file; without a place for it no event is told."""

    def __init__(self) -> None:
        self._path = ""
        with contextlib.suppress(OSError):
            handle, self._path = tempfile.mkstemp(prefix="ps_train_events_")
            os.close(handle)

    def environment(self) -> dict[str, str]:
        """Returns the environment variables for the children."""
        return {ENVIRONMENT: self._path} if self._path else {}

    def add(self, kind: str, task: str, text: str) -> None:
        """Appends an event; a full disk loses it."""
        if self._path:
            with contextlib.suppress(OSError), open(self._path, "a") as file:
                file.write(json.dumps(dataclasses.asdict(Event(time.time(), kind, task, text))) + "\n")

    def close(self) -> None:
        """Removes the file."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
