"""Sessions whose calls survive TensorFlow's refusals.

    session = Session("grpc://127.0.0.1:2222", graph=graph, config=config)
    session.run(train)          # made again where it was refused

TensorFlow gives every call of `run` a random id for each task that takes part, and a task refuses an id that is among
its last 100,000; about one call in 40,000 meets such an id (docs/decisions/0019-refused-calls.md).  A task refuses
before it does anything, so a call may be repeated where it changes nothing unless all its tasks have begun.  The graph
is built so; see `graph/begun.py`.
"""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

log = logging.getLogger(__name__)

_REFUSAL = "RunGraph (Worker) request was received twice"
_TRIES = 200
"""A bound for a task that refuses everything, which none is known to do."""


class Session(v1.Session):
    """A `tf.compat.v1.Session` that repeats calls which a task has refused.

    Attributes:
      refused: how many calls were.
    """

    refused = 0

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs as the base class does."""
        for _ in range(_TRIES):
            try:
                return super().run(fetches, feed_dict, options, run_metadata)
            except (tf.errors.AbortedError, tf.errors.CancelledError) as error:
                if not is_refusal(error):
                    raise
                self.refused += 1
                log.debug("a call was refused because of its id, and is made again")
        return super().run(fetches, feed_dict, options, run_metadata)


def is_refusal(error: tf.errors.OpError) -> bool:
    """Whether a task has refused the call because of its id; other tasks' cancellation may hide that error's type."""
    return _REFUSAL in str(error)
