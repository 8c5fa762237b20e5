"""The global step of a script, also one that the script made itself as a variable of the name `global_step`.

    step = tf.Variable(0, name="global_step", trainable=False)
    get_global_step()                   # the same variable

TensorFlow finds such a variable by the name of its tensor, which for a resource variable is a handle.  Here it joins
the collection in which TensorFlow looks first, so that its own hooks find it too.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

_NAME = "global_step"


def note_global_step(graph: tf.Graph | None = None) -> None:
    """Puts the integer scalar variable `global_step` of a graph into the collection of the global step, if it is empty.

    Args:
      graph: the graph; None for the default one.
    """
    graph = graph or v1.get_default_graph()
    if graph.finalized or graph.get_collection(v1.GraphKeys.GLOBAL_STEP):
        return
    for key in (v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.LOCAL_VARIABLES):
        for variable in graph.get_collection(key):
            if variable.op.name == _NAME and variable.dtype.base_dtype.is_integer and variable.shape.rank == 0:
                graph.add_to_collection(v1.GraphKeys.GLOBAL_STEP, variable)
                return


def get_global_step(graph: tf.Graph | None = None) -> Any:
    """Returns the global step of a graph as `tf.compat.v1.train.get_global_step`; None if there is none.

    Args:
      graph: the graph; None for the default one.
    """
    note_global_step(graph)
    return v1.train.get_global_step(graph)


def get_or_create_global_step(graph: tf.Graph | None = None) -> Any:
    """Returns the global step of a graph, which is made if there is none; the argument is that of `get_global_step`."""
    note_global_step(graph)
    return v1.train.get_or_create_global_step(graph)
