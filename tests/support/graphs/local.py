"""A graph of several tasks that runs in this process, without servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


class LocalSession:
    """A session of a complete graph, in which the devices of all ps and workers are this process.

    All global variables are initialized.
    """

    def __init__(self, graph: tf.Graph) -> None:
        with graph.as_default():
            initialize = v1.global_variables_initializer()
        nodes = graph.as_graph_def()
        for node in nodes.node:
            node.device = ""
        self._graph, self._here = graph, tf.Graph()
        with self._here.as_default():
            tf.import_graph_def(nodes, name="")
        self._session = v1.Session(graph=self._here)
        self.run(initialize)

    def run(self, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
        """Runs tensors, operations and variables of the graph; returns as a session does."""
        feeds = {self._of(key): value for key, value in (feeds or {}).items()}
        return self._session.run(tf.nest.map_structure(self._of, fetches), feeds)

    def close(self) -> None:
        self._session.close()

    def _of(self, element: Any) -> Any:
        return self._here.as_graph_element(self._graph.as_graph_element(element).name)
