"""Deltas between the checkpoints of a run, while it trains (`--delta_every_secs`)."""

from __future__ import annotations

import os

from ps_train.engine.run_directory.run_files import DELTAS
from ps_train.training.duties.delta_writer import DeltaWriter
from ps_train.training.duties.duty import Duty, End, LastStep, Setting

_LAST_SECS = 600.0
"""Seconds for the last delta, before the job is done."""


class Deltas(Duty):
    """The chain of deltas of the run, which another process writes."""

    def __init__(self, setting: Setting) -> None:
        self._console, self._directory = setting.console, setting.joined.directory
        self._writer = DeltaWriter(self._directory, setting.prepared.job.delta_every_secs)

    def finished(self, last: LastStep) -> None:
        """Waits until the chain leads to the last checkpoint."""
        self._writer.finish(_LAST_SECS)
        self._console.line(f"deltas {os.path.join(self._directory, DELTAS)}")

    def ended(self, end: End) -> None:
        """Ends the writer."""
        self._writer.close()
