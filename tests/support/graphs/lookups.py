"""Lookups in a plain graph, evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.modeling.tables.row_order import positions_of


def evaluated(build: Callable[[], Any]) -> Any:
    with tf.Graph().as_default(), v1.Session() as session:
        found = build()
        session.run(v1.global_variables_initializer())
        return session.run(found)


def looked_up(ids: Any, *args: Any, **kwargs: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a lookup gives, and the table in the order of its row numbers."""

    def build():
        found = embeddings.lookup("table", ids() if callable(ids) else tf.constant(ids), *args, **kwargs)
        (variable,) = v1.global_variables()
        return found, variable

    found, table = evaluated(build)
    return found, table[positions_of(np.arange(len(table)), len(table))]
