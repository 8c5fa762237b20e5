"""Results of evaluations, as the event files of an eval directory hold them.

read_eval_metrics("/models/run1/eval")      # {1000: {"loss": 0.4, "auc": 0.7}, 2000: ...}
"""

from __future__ import annotations

import glob
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.lifecycle import record_event
from ps_train.config.slice_names import split_slices
from ps_train.engine.run_directory.checkpoint_contents import RUN_KEY
from ps_train.engine.run_directory.run_files import EVAL_DIRECTORY
from ps_train.engine.run_directory.run_record import read_record

log = logging.getLogger(__name__)

_READ_SECS = 10.0
_EVENT_FILES = "events.out.tfevents.*"


def read_eval_metrics(
    eval_dir: str, pattern: str = _EVENT_FILES, model_dir: str | None = None
) -> dict[int, dict[str, float]]:
    """Returns the metrics of a run's evaluations; the rest of a damaged file is ignored.

    Evaluations of another run's checkpoints, and of steps that were rolled back, are left out.

    Args:
      eval_dir: directory of the event files.
      pattern: pattern of their paths in the directory.
      model_dir: directory of the run; None: that in which eval_dir is.

    Returns:
      The metrics by name, by global step in ascending order; {} if there are no event files.
    """
    found: dict[int, dict[str, float]] = {}
    record = read_record(os.path.dirname(os.path.abspath(eval_dir)) if model_dir is None else model_dir)
    for path in sorted(glob.glob(os.path.join(glob.escape(eval_dir), pattern))):
        for event in _events(path):
            values = {value.tag: value.simple_value for value in event.summary.value if value.HasField("simple_value")}
            if values and record.accepts(*_run_of(event), event.step):
                found.setdefault(event.step, {}).update(values)
    return dict(sorted(found.items()))


def values_of(
    name: str, results: Mapping[int, Mapping[str, float]], error: type[Exception], missing: str
) -> list[tuple[int, float]]:
    """Returns the steps and values of a metric in the results of `read_eval_metrics`.

    Raises:
      Exception: of the given class, which begins with `missing`: there are results, and none has the metric.
    """
    values = [(step, metrics[name]) for step, metrics in results.items() if name in metrics]
    if results and not values:
        raise error(f"{missing}: use one of {', '.join(sorted(set().union(*results.values())))}.")
    return values


def run_value(run: tuple[str, str]) -> Any:
    """Returns the value of a summary that says of which run and generation the evaluated checkpoint is."""
    return v1.Summary.Value(tag=RUN_KEY, tensor=tf.make_tensor_proto(list(run), tf.string))


def _run_of(event: Any) -> tuple[str, str]:
    for value in event.summary.value:
        if value.tag == RUN_KEY and len(value.tensor.string_val) == 2:
            run_id, generation = (text.decode(errors="replace") for text in value.tensor.string_val)
            return run_id, generation
    return "", ""


class EvalLog:
    """The evaluations of a run, read again at most every few seconds.  Safe to use from several threads.

    Args:
      directory: the model directory; "" for none.
      field: the field of --eval_by, whose metrics are left out of events.
    """

    def __init__(self, directory: str, field: str = "") -> None:
        self._field = field
        self._directory = os.path.join(directory, EVAL_DIRECTORY) if directory else ""
        self._due, self._found = 0.0, dict[int, dict[str, float]]()
        self._lock = threading.Lock()

    def read(self) -> dict[int, dict[str, float]]:
        """Returns the metrics of each evaluation, by global step; records an event for each new one."""
        with self._lock:
            if self._directory and time.monotonic() >= self._due:
                found = read_eval_metrics(self._directory)
                for step in found.keys() - self._found.keys():
                    whole, _ = split_slices(found[step], self._field)
                    values = "  ".join(f"{name} {value:.4f}" for name, value in whole.items())
                    record_event("evaluated", f"step {step}: {values}", "evaluator:0")
                self._due, self._found = time.monotonic() + _READ_SECS, found
            return self._found

    def newest(self) -> dict[str, float]:
        """Returns the metrics of the newest evaluation; {} if there is none."""
        found = self.read()
        return found[max(found)] if found else {}


def _events(path: str) -> Iterator[Any]:
    logger = v1.get_logger()
    logger.addFilter(_is_of_interest)
    try:
        yield from v1.train.summary_iterator(path)
    except (tf.errors.DataLossError, tf.errors.NotFoundError) as error:
        log.info("the rest of the event file %s is ignored: %s", path, error.message)
    finally:
        logger.removeFilter(_is_of_interest)


def _is_of_interest(record: logging.LogRecord) -> bool:
    """Returns False for TensorFlow's note that its own reader of event files is deprecated; users cannot act on it."""
    return "tf_record_iterator" not in record.getMessage()
