"""The bytes a second between this process and a ps, and the weights of the ps that follow from them.

    rate = bytes_per_sec("grpc://10.0.0.4:2222")       # of the slower direction
    weights_of([90e6, 88e6, 36e6])                     # "1,0.98,0.4"; "" where all are alike

A value is fed to the ps and fetched from it, so no server of this process takes part.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

_UNLIKE = 1.25
"""Ratio of the bytes a second of the fastest and the slowest ps from which on they are not alike."""

_FIRST_BYTES, _MOST_BYTES, _ENOUGH_SECS = 1 << 20, 64 << 20, 0.03
_CALL_SECS = 60.0


def bytes_per_sec(target: str) -> float:
    """Returns the bytes a second to a server or from it, whichever are fewer.

    Args:
      target: the server, such as grpc://10.0.0.4:2222.

    Raises:
      tf.errors.OpError: the server is lost meanwhile, or takes longer than a minute for a call.
    """
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        fed, count = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.int32, [])
        pushed, pulled = tf.size(fed), tf.fill([count], 1.0)
    config = v1.ConfigProto(operation_timeout_in_ms=int(1000 * _CALL_SECS))
    with v1.Session(target, graph=graph, config=config) as session:
        push, pull = session.make_callable(pushed, [fed]), session.make_callable(pulled, [count])
        return min(_rate(lambda size: push(np.ones(size // 4, np.float32))), _rate(lambda size: pull(size // 4)))


def _rate(transfer: Callable[[int], object]) -> float:
    def secs(size: int) -> float:
        began = time.monotonic()
        transfer(size)
        return max(1e-6, time.monotonic() - began)

    secs(4)  # prepares the graph
    size = _FIRST_BYTES
    while secs(size) < _ENOUGH_SECS and size < _MOST_BYTES:
        size *= 4
    return size / statistics.median(secs(size) for _ in range(3))


def weights_of(rates: Sequence[float | None]) -> str:
    """Returns the weights of `--ps_weights` for ps of these bytes a second; "" where they are alike.

    Args:
      rates: of each ps; None for one that counts as the fastest.
    """
    known = [rate for rate in rates if rate is not None]
    if not known or max(known) < _UNLIKE * min(known):
        return ""
    return ",".join("1" if rate is None else f"{rate / max(known):.2g}" for rate in rates)
