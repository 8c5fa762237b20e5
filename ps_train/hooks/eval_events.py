"""Results of evaluations, as the event files of an eval directory hold them.

read_eval_metrics("/models/run1/eval")      # {1000: {"loss": 0.4, "auc": 0.7}, 2000: ...}
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

log = logging.getLogger(__name__)

EVAL_DIRECTORY = "eval"
"""Directory of the evaluator's event files, in model_dir."""

_EVENT_FILES = "events.out.tfevents.*"


def read_eval_metrics(eval_dir: str, pattern: str = _EVENT_FILES) -> dict[int, dict[str, float]]:
    """Returns the metrics of all evaluations; the rest of a damaged file is ignored.

    Args:
      eval_dir: directory of the event files.
      pattern: pattern of their paths in the directory.

    Returns:
      The metrics by name, by global step in ascending order; {} if there are no event files.
    """
    found: dict[int, dict[str, float]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(eval_dir), pattern))):
        for event in _events(path):
            values = {value.tag: value.simple_value for value in event.summary.value if value.HasField("simple_value")}
            if values:
                found.setdefault(event.step, {}).update(values)
    return dict(sorted(found.items()))


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
