"""The summaries that a model makes itself in forward() and loss(), with `tf.compat.v1.summary`.

    with collecting_summaries():            # around one construction of the model
        ...
    summaries_of(graph)                     # tensors, each a serialized Summary

A step that does not fetch them does not compute them.  Some summaries have no tensor that a call can fetch: those in a
branch, loop or function, and those of `tf.summary` of TensorFlow 2.  They are named in a warning.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.unsaved_key import UnsavedKey
from ps_train.base.user_code import place_of
from ps_train.engine.variables.copied_functions import FunctionLibrary

log = logging.getLogger(__name__)

_KEY = UnsavedKey("summaries")
_TYPES = ("ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummary", "TensorSummary", "TensorSummaryV2")
_TF2_MODULE = "summary_ops_v2.py"
"""The file of TensorFlow that makes the operations of its second summary API."""


@contextlib.contextmanager
def collecting_summaries() -> Iterator[None]:
    """Collects the summaries made in the body; those of the first body in a graph count.

    The same model built again, for the next batch of a push, would write the same values under other names.
    """
    graph = v1.get_default_graph()
    before = graph.get_collection(v1.GraphKeys.SUMMARIES)
    graph.clear_collection(v1.GraphKeys.SUMMARIES)
    yield
    if not graph.get_collection(_KEY):
        graph.add_to_collection(_KEY, graph.get_collection(v1.GraphKeys.SUMMARIES))
    graph.get_collection_ref(v1.GraphKeys.SUMMARIES)[:] = before


def summaries_of(graph: tf.Graph) -> list[tf.Tensor]:
    """Returns the summaries of the model in a graph; logs a warning for each kind that cannot be written."""
    collections = graph.get_collection(_KEY)
    usable: list[tf.Tensor] = []
    inner: list[Any] = []
    for summary in collections[0] if collections else []:
        (usable if _is_usable(summary, graph) else inner).append(summary)
    inner = [summary.op for summary in inner if isinstance(summary, tf.Tensor)] or _calls(graph)
    if inner:
        log.warning(
            "a summary in a branch, loop or function is not written%s: make it outside, of the values that it returns",
            place_of(inner),
        )
    if second := [op for op in graph.get_operations() if _is_of_tf2(op)]:
        log.warning(
            "summaries of tf.summary are not written%s: use tf.compat.v1.summary, as in tf.compat.v1.summary.scalar",
            place_of(second),
        )
    return usable


def _calls(graph: tf.Graph) -> list[tf.Operation]:
    """Returns the operations that call a function with a summary in it."""
    operations = graph.get_operations()
    library = FunctionLibrary.of(operations) if operations else FunctionLibrary({})
    return [op for op in operations if any(node.op in _TYPES for node in library.nodes_of(op.node_def))]


def _is_usable(summary: Any, graph: tf.Graph) -> bool:
    return (
        isinstance(summary, tf.Tensor)
        and summary.dtype == tf.string
        and summary.graph is graph
        and graph.is_fetchable(summary)
    )


def _is_of_tf2(op: tf.Operation) -> bool:
    """Returns True for an operation of `tf.summary`: without a writer, which a model cannot have, it is a constant."""
    if op.type != "Const" or op.outputs[0].dtype != tf.bool:
        return "Summary" in op.type and op.type not in _TYPES
    return any(os.path.basename(frame.filename) == _TF2_MODULE for frame in op.traceback or ())
