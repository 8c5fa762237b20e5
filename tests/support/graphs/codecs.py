"""A codec used outside of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.codecs.codec import Codec


class UsedCodec:
    """Encodes and decodes vectors of one length.

    Args:
      codec: the codec.
      length: length of the vectors.
      is_known: whether the codec knows the length when the graph is built.
    """

    def __init__(self, codec: Codec, length: int, is_known: bool = True) -> None:
        with tf.Graph().as_default() as graph:
            self._vector = v1.placeholder(tf.float32, [length if is_known else None])
            self._seed = v1.placeholder(tf.int64, [2])
            self._parts = codec.encode(self._vector, self._seed)
            self._received = [v1.placeholder(part.dtype, [None]) for part in self._parts]
            self._decoded = codec.decode(self._received, length if is_known else tf.size(self._vector))
            self._session = v1.Session(graph=graph)
        assert tuple(part.dtype for part in self._parts) == codec.dtypes

    def encode(self, vector: np.ndarray[Any, Any], seed: int = 0) -> list[np.ndarray[Any, Any]]:
        return self._session.run(list(self._parts), {self._vector: vector, self._seed: [1, seed]})

    def decode(self, parts: Sequence[np.ndarray[Any, Any]], vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Decodes; a codec that does not know the length takes it from `vector`."""
        feeds: dict[Any, Any] = dict(zip(self._received, parts, strict=True)) | {self._vector: vector}
        return self._session.run(self._decoded, feeds)

    def __call__(self, vector: np.ndarray[Any, Any], seed: int = 0) -> np.ndarray[Any, Any]:
        """Returns the vector as its receiver gets it."""
        return self.decode(self.encode(vector, seed), vector)
