"""The state that a model keeps on each worker: lookup tables and local variables.

    local = collect_local_state()           # of the default graph, after the model is built
    local.prepare(session)                  # in each new session, before the first batch

A worker's server outlives a session that lost a ps.  Its tables and local variables keep their values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.unsaved_key import UnsavedKey
from ps_train.cluster.sessions.calls import UNBOUNDED_CALL


@dataclasses.dataclass(frozen=True)
class LocalState:
    """The operations that prepare a worker's local state.

    Attributes:
      tables: fills the lookup tables; does not change tables that are filled.
      missing: bool [n], True for each local variable that has no value.
      initializers: the n initializers of the local variables.
    """

    tables: tf.Operation
    missing: tf.Tensor
    initializers: list[tf.Operation]

    def prepare(self, session: v1.Session) -> None:
        """Fills the tables and initializes the local variables that have no value."""
        session.run(self.tables, options=UNBOUNDED_CALL)
        missing = session.run(self.missing) if self.initializers else []
        pending = [initializer for initializer, gone in zip(self.initializers, missing, strict=True) if gone]
        session.run(pending, options=UNBOUNDED_CALL)


OWN = UnsavedKey("own_local_variables")
"""Collection of the variables that ps_train keeps on a worker.

They are not in LOCAL_VARIABLES, because the hooks of a program may initialize all of those at any time.
"""


def local_variable(name: str, shape: Sequence[int], dtype: tf.DType = tf.float32, value: float = 0) -> Any:
    """Makes a variable of this worker that is not trained; each element is `value` at first."""
    initial = v1.constant_initializer(value) if value else v1.zeros_initializer()  # a large constant stays in memory
    return v1.get_variable(name, shape, dtype, initial, trainable=False, collections=[OWN], use_resource=True)


def growing_variable(name: str, dtype: tf.DType = tf.float32, row: Sequence[int] = ()) -> Any:
    """Makes a variable of this worker that is not trained and has any number of rows, at first none.

    `get_variable` cannot make one.  No operation but the first may assign it a value whose number of rows is known when
    the graph is built: TensorFlow 2.21's constant folding then takes it for that of all later reads.
    """
    return v1.Variable(
        lambda: tf.zeros([0, *row], dtype),
        trainable=False,
        collections=[OWN],
        validate_shape=False,
        use_resource=True,
        name=name,
        shape=tf.TensorShape([None, *row]),
    )


def collect_local_state() -> LocalState:
    """Returns the local state of the default graph."""
    variables: list[Any] = [*v1.local_variables(), *v1.get_collection(OWN)]
    flags = [tf.logical_not(v1.is_variable_initialized(variable)) for variable in variables]
    missing = tf.stack(flags) if flags else tf.zeros([0], tf.bool)
    return LocalState(v1.tables_initializer(), missing, [variable.initializer for variable in variables])
