"""What the chief leaves behind when the last checkpoint is written: uploads, an export, advice."""

from __future__ import annotations

import os

from ps_train.config.error_report import REPORT_VARIABLE
from ps_train.observe.status.run_end import advice
from ps_train.observe.tracking.tracking import Tracking
from ps_train.saved.export.export import prepare_export
from ps_train.training.duties.duty import Duty, LastStep, Setting
from ps_train.training.duties.export_model import export_model
from ps_train.training.joining.join import JoinedAsChief

_LAST_UPLOAD_SECS = 600.0
"""Seconds for the last upload to a model directory on an object store, before the job is done."""


class Uploading(Duty):
    """The last checkpoint where users look for it."""

    def __init__(self, setting: Setting, joined: JoinedAsChief, tracking: Tracking) -> None:
        self._console, self._directory, self._tracking = setting.console, joined.model_directory, tracking

    def finished(self, last: LastStep) -> None:
        """Waits for the upload, if the directory is on an object store."""
        self._directory.flush(_LAST_UPLOAD_SECS)
        self._console.line(f"checkpoint {last.shown}")
        self._tracking.tag("checkpoint", last.shown)


class Exporting(Duty):
    """The export of the trained model (`--export_dir`)."""

    def __init__(self, setting: Setting, tracking: Tracking) -> None:
        self._prepared, self._console, self._tracking = setting.prepared, setting.console, tracking

    def finished(self, last: LastStep) -> None:
        """Exports the last checkpoint."""
        prepared, job = self._prepared, self._prepared.job
        directory = prepare_export(job.final_export_dir)
        exported = export_model(job, prepared.model, prepared.source, last.path, directory)
        self._console.line(f"exported {exported}")
        self._tracking.tag("export", exported)


class Advising(Duty):
    """What to do next, for a model that gives advice."""

    def __init__(self, setting: Setting, joined: JoinedAsChief) -> None:
        self._console, self._shown = setting.console, joined.model_directory.name
        self._export_dir = setting.prepared.job.export_dir

    def finished(self, last: LastStep) -> None:
        """Shows the commands."""
        is_call = REPORT_VARIABLE in os.environ
        for line in advice(self._shown, self._export_dir, last.step, is_call=is_call):
            self._console.line(line)
