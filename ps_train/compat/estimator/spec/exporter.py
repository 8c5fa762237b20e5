"""Exporters: they write the model as a SavedModel after evaluations.

LatestExporter("latest", serving_input_receiver_fn, exports_to_keep=3)      # after every evaluation
FinalExporter("final", serving_input_receiver_fn)                           # after the last one
"""

from __future__ import annotations

import abc
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

log = logging.getLogger(__name__)

_DIGITS = 10
"""Digits in the name of an export's directory, which is a time in seconds."""


class Exporter(abc.ABC):
    """A kind of export, called after each evaluation."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the export's directory in `model_dir/export`."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | bytes | None:
        """Exports the model, or skips it.

        Args:
          estimator: exports with its own input, as `export_saved_model`.
          export_path: directory for the exports of this exporter.
          checkpoint_path: the checkpoint that was evaluated.
          eval_result: result of the evaluation: metrics by name, with `global_step`.
          is_the_final_export: True after the last evaluation of the job.

        Returns:
          The directory of the export; None if it was skipped.
        """


class SavedModelExporter(Exporter):
    """An exporter that writes a SavedModel each time; the base of the other ones, which say when and how many.

    Args:
      name: name of the export's directory in `model_dir/export`.
      serving_input_receiver_fn: returns the ServingInputReceiver.
      assets_extra: files to copy, by their path in the export's `assets.extra` directory.
      as_text: True to write the graph as text.
    """

    log_line = ""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        self._name, self._receiver_fn = name, serving_input_receiver_fn
        self._assets_extra, self._as_text = assets_extra, as_text
        self._exports_to_keep: int | None = None

    @property
    def name(self) -> str:
        """Name of the export's directory in `model_dir/export`."""
        return self._name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | bytes | None:
        """Exports the model if it is wanted, and removes the oldest exports; returns the export's directory."""
        if not self.is_wanted(estimator, export_path, eval_result, is_the_final_export):
            return None
        if self.log_line:
            logging.getLogger("tensorflow").info(self.log_line)
        written = estimator.export_saved_model(
            export_path,
            self._receiver_fn,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )
        self.exported(eval_result)
        remove_old_exports(export_path, self._exports_to_keep)
        return written

    def is_wanted(
        self, estimator: Any, export_path: str, eval_result: Mapping[str, Any], is_the_final_export: bool
    ) -> bool:
        """Returns True if the model of an evaluation is exported."""
        return True

    def exported(self, eval_result: Mapping[str, Any]) -> None:
        """Notes that the model of this result was exported."""


class FinalExporter(SavedModelExporter):
    """An exporter that writes one export, after the last evaluation of the job."""

    log_line = "Performing the final export in the end of training."

    def is_wanted(
        self, estimator: Any, export_path: str, eval_result: Mapping[str, Any], is_the_final_export: bool
    ) -> bool:
        """Returns True if the model of an evaluation is exported."""
        return is_the_final_export


class LatestExporter(SavedModelExporter):
    """An exporter that writes an export after every evaluation, and keeps the latest ones.

    Args:
      name: name of the export's directory in `model_dir/export`.
      serving_input_receiver_fn: returns the ServingInputReceiver.
      assets_extra: files to copy, by their path in the export's `assets.extra` directory.
      as_text: True to write the graph as text.
      exports_to_keep: number of exports to keep; None: all.

    Raises:
      ValueError: exports_to_keep is not positive.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        self._exports_to_keep = checked_exports_to_keep(exports_to_keep)


def checked_exports_to_keep(count: int | None) -> int | None:
    """Returns a number of exports; raises ValueError if it is not positive."""
    if count is not None and count <= 0:
        raise ValueError(f"exports_to_keep={count} is not valid: use a number of at least 1, or None to keep all.")
    return count


def exports_in(directory: str) -> list[str]:
    """Returns the paths of the exports in a directory, the oldest first; each is named by a time of ten digits."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    exports = [name for name in names if len(name) == _DIGITS and name.isdigit()]
    return [os.path.join(directory, name) for name in sorted(exports, key=int)]


def remove_old_exports(directory: str, keep: int | None) -> None:
    """Removes all exports in a directory but the latest `keep`; None keeps all."""
    for path in exports_in(directory)[: -keep if keep else 0]:
        try:
            shutil.rmtree(path)
        except OSError as error:
            log.warning("the old export %s cannot be removed: %s", path, error)
