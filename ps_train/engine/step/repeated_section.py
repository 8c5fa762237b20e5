"""A section that a worker makes alone, any number of times in one call.

    local = RepeatedSection(section, "local")
    session.run(*local.call(31))                     # fetches and feeds: 31 times
    placed = local.times(31, "round", 1, NOTHING)    # as a part of another call

The section becomes the body of a loop: a function, which TensorFlow prepares once for any number, and of which there is
one node in the graph.  So a round of 1,000 steps is prepared as fast as one of 4, and the nodes of a step stay in the
processor's caches.  A loop runs on one host's processors and sends nothing.  A section that uses a GPU or a ps, or that
of a worker in the process of a ps, where functions run on the device of the ps, is copied in the place of that.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import capture, keep_whole
from ps_train.cluster.sessions.calls import call_options
from ps_train.engine.step.copied_nodes import Gate, device_of_op
from ps_train.engine.step.unroll import NOTHING, Placed, Section, extending


class RepeatedSection:
    """A section that is made several times.

    Args:
      section: the section.
      name: of its nodes.

    Attributes:
      section: the section.
    """

    def __init__(self, section: Section, name: str) -> None:
        self.section, self._name = section, name
        self._copies: list[Placed] = []
        self._functions: dict[int, Any] = {}

    @functools.cached_property
    def is_loop(self) -> bool:
        """Whether it is a loop, and not copies."""
        return not tf.config.list_physical_devices("GPU") and all(map(_is_on_a_worker, self.section.inside))

    @property
    def nodes(self) -> int:
        """The number of nodes that TensorFlow prepares for each further time."""
        return 1 if self.is_loop else self.section.nodes

    def call(self, count: int) -> tuple[list[tf.Operation], dict[tf.Tensor, int]]:
        """Returns the fetches and the feeds of a call that makes it so many times; call it in one thread at a time."""
        with extending(self.section.graph):
            if self.is_loop:
                return [*self._loop.ops], {self._count: count}
            while len(self._copies) < count:
                number = len(self._copies)
                previous = self._copies[-1] if number else NOTHING
                self._copies.append(self.section.copy(f"{self._name}_{number}", number + 1, previous))
        return [op for placed in self._copies[:count] for op in placed.ops], {}

    def times(
        self,
        count: int,
        name: str,
        number: int,
        previous: Placed,
        gates: Mapping[str, Gate] = MappingProxyType({}),
    ) -> list[Placed]:
        """Adds it so many times to the graph, as a part of a call; see `Section.copy`."""
        if count and self.is_loop:
            after = [op for gate in gates.values() for op in gate.after]
            with tf.device(self._device):
                return [self._placed(tf.constant(count), f"{name}/{number}/{self._name}", number, previous, after)]
        found = list[Placed]()
        for one in range(number, number + count):
            found.append(self.section.copy(f"{name}/{one}", one, previous, gates if one == number else {}))
            previous = found[-1]
        return found

    @functools.cached_property
    def _count(self) -> tf.Tensor:
        with tf.device(self._device):
            return v1.placeholder(tf.int32, [], f"{self._name}/count")

    @functools.cached_property
    def _loop(self) -> Placed:
        return self._placed(self._count, self._name, 1, NOTHING)

    @property
    def _device(self) -> str:
        return next(op.device for op in self.section.inside if op.device)

    def _placed(
        self, count: tf.Tensor, name: str, number: int, previous: Placed, after: Sequence[tf.Operation] = ()
    ) -> Placed:
        """Adds the loop to the graph."""
        before = [*after, *previous.batch_ops, *previous.worker_ends]
        with tf.device(self._device), tf.control_dependencies(before):
            step, given = self._function(number)
            options = call_options(self.section.nodes).SerializeToString()
            arguments = [tf.constant(0), count, *given]

            def captured() -> list[tf.Tensor]:
                # Captures keep the shapes of variables, which arguments of a function have not.
                graph = v1.get_default_graph()
                return [capture(graph, one) for one in given]

            def is_left(made: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
                captured()  # both functions have the same arguments
                return made < count

            def one_more(made: tf.Tensor, count: tf.Tensor) -> tuple[tf.Tensor, ...]:
                own = captured()
                (done,) = tf.raw_ops.StatefulPartitionedCall(args=own, Tout=[tf.int32], f=step, config_proto=options)
                return made + done, tf.identity(count), *own

            functions = [v1.wrap_function(one, [tf.TensorSpec([], tf.int32)] * 2) for one in (one_more, is_left)]
            for one in functions:
                one.add_to_graph(count.graph)
            result = tf.raw_ops.While(
                input=arguments,
                body=functions[0],
                cond=functions[1],
                output_shapes=[one.shape for one in arguments],
                name=name,
            )[0]
            keep_whole(result)
            op = result.op
        return Placed([op], previous.on_ps, [op], [op])

    def _function(self, number: int) -> tuple[Any, Sequence[tf.Tensor]]:
        """Returns the function of one time, which returns 1, and the tensors that it is called with."""
        number = number if self.section.draws else 0
        if number not in self._functions:
            nodes, given = self.section.function_nodes(number)

            def body() -> tf.Tensor:
                graph = v1.get_default_graph()
                names = {one.name: capture(graph, one) for one in given}
                done = tf.import_graph_def(nodes, names, [op.name for op in self.section.targets], name="")
                with tf.control_dependencies(done):
                    return tf.constant(1)

            function = v1.wrap_function(body, [])
            function.add_to_graph(self.section.graph)
            self._functions[number] = function, given
        return self._functions[number]


def _is_on_a_worker(op: tf.Operation) -> bool:
    device = device_of_op(op)
    return device.job not in (None, "ps") and device.device_type in (None, "CPU") and not device.device_index
