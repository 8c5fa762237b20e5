"""The input of a training task, which outlives the sessions that read it.

    source = Input(server.target, own_config(cluster, task, job), step.graph, step.batches)
    source.begin(seed=7)

TensorFlow reads ahead in threads that use a device of the session in which the iterator was made and begun, and dies of
a segmentation fault when that session is closed first.  So this is done in a session that is never closed, has a part
of the graph only, and asks no other task.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.shard import Batches


class Input:
    """Args:
    config: of a session that sees the task's own devices only.
    graph: where the batches are made.
    """

    def __init__(self, target: str, config: v1.ConfigProto, graph: tf.Graph, batches: Batches) -> None:
        self._batches = batches
        part = tf.Graph()
        with part.as_default():
            tf.import_graph_def(_part_of(graph, batches.initializer), name="")
        self._session = v1.Session(target, graph=part, config=config)

    def begin(self, seed: int = 0) -> None:
        """Begins to read anew."""
        if self._batches.ended is not None:
            self._batches.ended.clear()
        feeds = {tensor.name: value for tensor, value in self._batches.feeds(seed).items()}
        self._session.run(self._batches.initializer.name, feeds)


def _part_of(graph: tf.Graph, target: tf.Operation) -> v1.GraphDef:
    """Returns the definition of that operation and of all that it needs."""
    wanted: set[str] = set()
    todo = [target]
    while todo:
        operation = todo.pop()
        if operation.name not in wanted:
            wanted.add(operation.name)
            todo += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    whole = graph.as_graph_def()
    part = v1.GraphDef(library=whole.library, versions=whole.versions)
    part.node.extend(node for node in whole.node if node.name in wanted)
    return part
