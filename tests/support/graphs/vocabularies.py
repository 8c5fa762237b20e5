"""The variables of an open vocabulary in a graph of one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.vocabulary_index import VocabularyVariables


def vocabulary_variables(rows: int, groups: int = 1, width: int = 1) -> VocabularyVariables:
    shapes = {"keys": [rows, width], "used": [rows, 3], "clock": [groups]}
    return VocabularyVariables(
        *[v1.Variable(tf.zeros(shape, tf.int64), use_resource=True, name=name) for name, shape in shapes.items()]
    )


def keys_of(ids: Any) -> np.ndarray:
    return np.reshape(np.asarray(ids, np.int64), [-1, 1])


class Session:
    """A session with placeholders: `keys` int64 [n, width], and vectors of int64 by name."""

    def __init__(self, width: int = 1) -> None:
        self.keys = v1.placeholder(tf.int64, [None, width])
        self._vectors: dict[str, tf.Tensor] = {}
        self._session: v1.Session | None = None

    def vector(self, name: str) -> tf.Tensor:
        return self._vectors.setdefault(name, v1.placeholder(tf.int64, [None]))

    def run(self, fetches: Any, keys: Any = None, **vectors: Any) -> Any:
        if self._session is None:  # the graph is complete
            self._session = v1.Session()
            self._session.run(v1.global_variables_initializer())
        feeds: Mapping[Any, Any] = {self._vectors[name]: value for name, value in vectors.items()}
        return self._session.run(fetches, {**feeds, **({} if keys is None else {self.keys: keys})})
