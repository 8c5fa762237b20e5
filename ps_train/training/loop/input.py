"""The input of a training task, which outlives the sessions that read it.

    source = Input(server.target, own_config(cluster, task, job), step.worker.batches, step.worker.calls_begun)
    source.begin(seed=7)

TensorFlow reads ahead in threads that use a device of the session that initialized the iterator.  It crashes with a
segmentation fault when that session is closed first.  So the iterator is initialized in a session that is never closed,
contains only a part of the graph, and calls no other task.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import RepeatingSession
from ps_train.data.pipeline import Batches


class Input:
    """The input of one training task.

    Args:
      target: address of the task's own server.
      config: configuration of a session with the task's own devices only.
      batches: the batches of the first step in the training graph.
      calls_begun: int64 scalar on the worker, number of training calls that have begun on all their tasks.
    """

    def __init__(self, target: str, config: v1.ConfigProto, batches: Batches, calls_begun: tf.Tensor) -> None:
        self._batches, self._calls_begun = batches, calls_begun.name
        part = tf.Graph()
        with part.as_default():
            tf.import_graph_def(_part_of(calls_begun.graph, [batches.initializer, calls_begun.op]), name="")
        self._session = RepeatingSession(target, graph=part, config=config)

    def begun_calls(self) -> int:
        """Returns the number of training calls that have begun on all their tasks, over all sessions."""
        return int(self._session.run(self._calls_begun))

    @property
    def begins_anywhere(self) -> bool:
        """True if the input can begin with the batch of any step."""
        return self._batches.start is not None

    def begin(self, seed: int = 0, step: int = 0) -> None:
        """Restarts the input.

        Args:
          seed: decides the order of the examples.
          step: the step of the first batch, if the input can begin with that of any.
        """
        if self._batches.ended is not None:
            self._batches.ended.clear()
        feeds = {tensor.name: value for tensor, value in self._batches.feeds(seed, step).items()}
        self._session.run(self._batches.initializer.name, feeds)


def _part_of(graph: tf.Graph, targets: Sequence[tf.Operation]) -> v1.GraphDef:
    """Returns the definition of the operations and of everything they depend on."""
    needed: set[str] = set()
    todo = list(targets)
    while todo:
        operation = todo.pop()
        if operation.name not in needed:
            needed.add(operation.name)
            todo += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    full = graph.as_graph_def()
    part = v1.GraphDef(library=full.library, versions=full.versions)
    part.node.extend(node for node in full.node if node.name in needed)
    return part
