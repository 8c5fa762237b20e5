"""TensorFlow's warnings of deprecated names: shown once for a cluster, by its chief.

    limit_deprecations(is_first=config.is_chief)

A program for TensorFlow 1 uses them on purpose, and every task would give the same warnings.  Those of ps_train's own
code are not shown: the user cannot act on them.  The environment variable `PS_TRAIN_DEPRECATIONS` has another choice:
"all" or "none".  Standard library only: TensorFlow's logger is known by its name.
"""

from __future__ import annotations

import logging
import os

VARIABLE = "PS_TRAIN_DEPRECATIONS"
ALL, NONE = "all", "none"

_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_FORM = "From %s: "
"""The beginning of each such warning, before its values; the first value is the place of the call."""

_OF_A_CLASS = "`tf."
"""The beginning of a warning that names a class, and no place: `tf.nn.rnn_cell.MultiRNNCell` is deprecated."""


def limit_deprecations(is_first: bool) -> None:
    """Lets TensorFlow warn of deprecated names in the first task of a cluster alone.

    Args:
      is_first: True for the task that shows the warnings, and for a process without a cluster.
    """
    choice = os.environ.get(VARIABLE, "")
    logger = logging.getLogger("tensorflow")
    for before in [one for one in logger.filters if isinstance(one, _Filter)]:
        logger.removeFilter(before)
    if choice != ALL:
        logger.addFilter(_Filter(is_first and choice != NONE))


def hide_own_deprecations() -> None:
    """Hides the warnings of ps_train's own code in a process of the user's, unless these are limited already."""
    if not any(isinstance(one, _Filter) for one in logging.getLogger("tensorflow").filters):
        limit_deprecations(is_first=True)


class _Filter(logging.Filter):
    """A filter of TensorFlow's log.

    Args:
      shows: whether warnings of the user's code are shown.
    """

    def __init__(self, shows: bool) -> None:
        super().__init__()
        self._shows = shows

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns False for a warning that is not to be shown."""
        text = str(record.msg)
        if text.startswith(_OF_A_CLASS) and " is deprecated" in text:
            return self._shows
        if not (text.startswith(_FORM) and "deprecated" in text):
            return True
        place = record.args[0] if isinstance(record.args, tuple) and record.args else ""
        return self._shows and not str(place).startswith(_OWN)
