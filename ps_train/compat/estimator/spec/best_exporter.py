"""Exporter of the best model.

BestExporter("best", serving_input_receiver_fn, compare_fn=higher_auc, exports_to_keep=3)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ps_train.compat.estimator.spec.exporter import SavedModelExporter, checked_exports_to_keep, exports_in
from ps_train.engine.run_directory.run_record import RunRecord, read_record
from ps_train.observe.progress.eval_events import read_eval_metrics

_LOSS = "loss"
_ARGUMENTS = ("best_eval_result", "current_eval_result")


def loss_smaller(best_eval_result: Mapping[str, Any], current_eval_result: Mapping[str, Any]) -> bool:
    """Returns True if the loss of the current result is smaller than the best one's.

    Raises:
      ValueError: a result has no loss.
    """
    for name, result in zip(_ARGUMENTS, (best_eval_result, current_eval_result), strict=True):
        if not result or _LOSS not in result:
            raise ValueError(f"{name}={result!r} has no {_LOSS}: give the exporter another compare_fn.")
    return bool(best_eval_result[_LOSS] > current_eval_result[_LOSS])


class BestExporter(SavedModelExporter):
    """An exporter that writes an export whenever an evaluation is better than all before.

    The first evaluation of a run is always exported.  After a restart the best earlier result is read from the event
    files.

    Args:
      name: name of the export's directory in `model_dir/export`.
      serving_input_receiver_fn: returns the ServingInputReceiver.
      event_file_pattern: pattern of the evaluation's event files in model_dir; None: earlier results are not read.
      compare_fn: called as compare_fn(best_eval_result=..., current_eval_result=...); returns True if the current
        result is better.  By default the one with the smaller loss.
      assets_extra: files to copy, by their path in the export's `assets.extra` directory.
      as_text: True to write the graph as text.
      exports_to_keep: number of exports to keep; None: all.

    Raises:
      ValueError: compare_fn has other arguments, or exports_to_keep is not positive.
    """

    log_line = "Performing best model export."

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., bool] | None = loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        self._is_better = _checked_compare_fn(compare_fn)
        self._pattern, self._exports_to_keep = event_file_pattern, checked_exports_to_keep(exports_to_keep)
        self._model_dir: str | None = None
        self._record = RunRecord()
        self._best: Mapping[str, Any] | None = None

    def is_wanted(
        self, estimator: Any, export_path: str, eval_result: Mapping[str, Any], is_the_final_export: bool
    ) -> bool:
        """Returns True if the model of an evaluation is exported."""
        record = read_record(estimator.model_dir)
        if (self._model_dir, self._record) != (estimator.model_dir, record):  # another run, or steps were rolled back
            self._model_dir, self._record = estimator.model_dir, record
            self._best = self._earlier_best(eval_result) if exports_in(export_path) else None
        return self._best is None or self._is_better(best_eval_result=self._best, current_eval_result=eval_result)

    def exported(self, eval_result: Mapping[str, Any]) -> None:
        """Notes that the model of this result was exported."""
        self._best = eval_result

    def _earlier_best(self, current: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Returns the best result in the event files, other than the current one, which they hold already."""
        if not self._pattern or self._model_dir is None:
            return None
        best: Mapping[str, Any] | None = None
        for step, metrics in read_eval_metrics(self._model_dir, self._pattern, self._model_dir).items():
            result = {**metrics, "global_step": step}
            if _LOSS not in metrics or step == current.get("global_step"):
                continue
            if best is None or self._is_better(best_eval_result=best, current_eval_result=result):
                best = result
        return best


def _checked_compare_fn(compare_fn: Callable[..., bool] | None) -> Callable[..., bool]:
    if compare_fn is None:
        raise ValueError("compare_fn=None is not valid: use a function, or leave it out to compare the loss.")
    names = inspect.signature(compare_fn).parameters
    if set(names) != set(_ARGUMENTS):
        raise ValueError(
            f"compare_fn={compare_fn!r} has the arguments {', '.join(names)}: use {', '.join(_ARGUMENTS)}."
        )
    return compare_fn
