"""The state that a model keeps on each worker for itself: lookup tables and local variables.

    local = local_state()                   # of the present graph, when the model is built
    local.prepare(session)                  # in each new session, before the first batch

A worker's server outlives a session that lost a ps, and what the server holds is kept.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.calls import UNBOUNDED_CALL


@dataclasses.dataclass(frozen=True)
class LocalState:
    """Attributes:
    tables: fills the tables; does nothing to those that are filled.
    missing: bool vector, for each initializer whether its variable has no value.
    initializers: of the local variables.
    """

    tables: tf.Operation
    missing: tf.Tensor
    initializers: list[tf.Operation]

    def prepare(self, session: v1.Session) -> None:
        """Gives a value to what has none."""
        session.run(self.tables, options=UNBOUNDED_CALL)
        missing = session.run(self.missing) if self.initializers else []
        session.run([one for one, gone in zip(self.initializers, missing, strict=True) if gone], options=UNBOUNDED_CALL)


def collect_local_state() -> LocalState:
    variables: list[Any] = v1.local_variables()
    found = [tf.logical_not(v1.is_variable_initialized(variable)) for variable in variables]
    missing = tf.stack(found) if found else tf.zeros([0], tf.bool)
    return LocalState(v1.tables_initializer(), missing, [variable.initializer for variable in variables])
