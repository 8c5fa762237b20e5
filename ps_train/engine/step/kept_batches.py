"""The batches of a round, which a worker reads before it pulls the rows that they need.

    batches = KeptBatches(num_ps, ids, drawn, number)               # number of the batch that a local step uses
    session.run(batches.front.copy("front_1", 1, NOTHING).ops)      # reads one more, and finds its ids
    batches.ids["ads"]                              # those of all batches that are kept

What a step computes of its batch before it knows its rows is its front: the batch, the ids, and what is drawn for them.
A round makes the fronts of all its steps first, and its steps use what these have found.  So a step is divided where it
is built: what the rest of it took from the front, it takes from a list on the worker.  So does whoever fetches tensors
of the batch or its ids, such as a hook: the front itself has only copies in the graph, which read one batch each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import context_of, replace_control_inputs, set_input
from ps_train.engine.step.copied_nodes import GET_NEXT, Template, ps_of
from ps_train.engine.step.effects import wait_for_no_state
from ps_train.engine.step.unroll import Section
from ps_train.engine.transport.model_state import loading_state
from ps_train.engine.variables.worker_state import OWN

_CPU = "/device:CPU:0"


class KeptBatches:
    """The kept batches; make it in the worker's device scope, when the whole step is built.

    Args:
      num_ps: number of ps.
      ids: table name to the ids of the step's batch, each once.
      drawn: what else the step asks of the ps before it knows its rows.
      number: int64 scalar, which of the kept batches the step uses.

    Attributes:
      front: the section that reads a batch, and keeps what the front finds.
      ids: table name to the ids of all kept batches.
    """

    def __init__(
        self, num_ps: int, ids: Mapping[str, tf.Tensor], drawn: Sequence[tf.Tensor], number: tf.Tensor
    ) -> None:
        targets = [tensor.op for tensor in (*ids.values(), *drawn)]
        wait_for_no_state(targets)  # a front begins without the state of the model
        front = Template(targets)
        self._inside = {op.name for op in front.inside}
        here = [op for op in front.inside if ps_of(op) is None]
        self._check_own(here)
        uses = _uses(here, self._inside)
        with tf.device(_CPU):
            self._batches = _list_variable("ps_train/round/kept", tf.variant, [])
            self._ids = {
                name: _list_variable(f"ps_train/round/ids/{name}", one.dtype, one.shape) for name, one in ids.items()
            }
            found = tf.raw_ops.OptionalFromValue(components=[tensor for tensor, _ in uses] or [tf.constant(0)])
            pairs = [(self._batches, found), *((self._ids[name], one) for name, one in ids.items())]
            read = tf.group(*(_appended(*pair) for pair in pairs), name="ps_train/round/front")
            self.front = Section([read], num_ps)
            self.front.freeze()
            taken = self._taken([tensor for tensor, _ in uses], number)
            self.ids = {name: _joined(self._ids[name], one) for name, one in ids.items()}
        for (_, consumers), kept in zip(uses, taken, strict=True):
            for op, index in consumers:
                set_input(op, index, kept)
        self._move_control(here, taken, read)

    def forgotten(self, after: Sequence[Any] = ()) -> list[tf.Operation]:
        """Returns the operations that forget all batches, after these tensors or operations."""
        with tf.device(_CPU), tf.control_dependencies(after):
            return [one.assign(_empty(dtype, shape), read_value=False) for one, dtype, shape in self._lists()]

    def _lists(self) -> list[tuple[Any, tf.DType, Any]]:
        ids = [(self._ids[name], one.dtype, one.shape) for name, one in self.ids.items()]
        return [(self._batches, tf.variant, []), *ids]

    def _taken(self, tensors: Sequence[tf.Tensor], number: tf.Tensor) -> list[tf.Tensor]:
        """Returns what was kept of these tensors for the batch of a number."""
        if not tensors:
            return []
        item = tf.raw_ops.TensorListGetItem(
            input_handle=self._batches.read_value(),
            index=tf.cast(number, tf.int32),
            element_shape=tf.constant([], tf.int32),
            element_dtype=tf.variant,
        )
        dtypes, shapes = [one.dtype for one in tensors], [one.shape for one in tensors]
        found: list[tf.Tensor] = tf.raw_ops.OptionalGetValue(optional=item, output_types=dtypes, output_shapes=shapes)
        return found

    def _move_control(self, here: Sequence[tf.Operation], taken: Sequence[tf.Tensor], read: tf.Operation) -> None:
        """Lets what waits for an operation of the front wait for the kept batch in its place."""
        names = {op.name for op in here}
        for op in here[0].graph.get_operations():
            waits = [one for one in op.control_inputs if one.name in names]
            if waits and op.name not in self._inside and op is not read:
                kept = [one for one in op.control_inputs if one.name not in names]
                replace_control_inputs(op, [*kept, *(one.op for one in taken[:1])])

    @staticmethod
    def _check_own(here: Sequence[tf.Operation]) -> None:
        own = {variable.handle.op for variable in v1.get_collection(OWN)}
        own |= {loading.inputs[0].op for loading in loading_state()}
        for op in here:
            if any(tensor.op in own for tensor in op.inputs):
                raise ModelError(
                    "with local steps, tables are looked up with ids that depend on trained values, on values that "
                    "the model assigns, or on the global step: all rows of a round are pulled together, so ids must be "
                    "computed from features alone; or add --local_tables=false."
                )


def _uses(here: Sequence[tf.Operation], inside: set[str]) -> list[tuple[tf.Tensor, list[tuple[tf.Operation, int]]]]:
    """Returns the tensors of the front that are kept: each with the operations that use it and their inputs.

    They are those that the rest of the step uses, and the batch, so that its tensors may be fetched.
    """
    found = []
    for op in here:
        for tensor in op.outputs:
            users = [one for one in tensor.consumers() if op.type == GET_NEXT or one.name not in inside]
            places = [(one, index) for one in users for index, given in enumerate(one.inputs) if given is tensor]
            if places:
                _check(tensor)
                found.append((tensor, places))
    return found


def _check(tensor: tf.Tensor) -> None:
    if tensor.dtype == tf.resource or context_of(tensor.op) is not None:
        raise ModelError(
            f"with local steps, the ids of tables come from a loop or a resource that the rest of the step uses too "
            f"({tensor.op.type} {tensor.op.name}): compute ids outside of tf.cond and tf.while_loop; or add "
            "--local_tables=false."
        )


def _list_variable(name: str, dtype: tf.DType, shape: Any) -> Any:
    """Makes a variable of this worker that has a list of tensors of a dtype and a shape."""
    return v1.get_variable(
        name,
        [],
        tf.variant,
        lambda *_, **__: _empty(dtype, shape),
        trainable=False,
        collections=[OWN],
        use_resource=True,
    )


def _empty(dtype: tf.DType, shape: Any) -> tf.Tensor:
    sizes = [-1 if size is None else size for size in tf.TensorShape(shape).as_list()]
    return tf.raw_ops.EmptyTensorList(
        element_shape=tf.constant(sizes, tf.int32), max_num_elements=-1, element_dtype=dtype
    )


def _appended(variable: Any, tensor: tf.Tensor) -> tf.Operation:
    longer = tf.raw_ops.TensorListPushBack(input_handle=variable.read_value(), tensor=tensor)
    return variable.assign(longer, read_value=False)


def _joined(variable: Any, of: tf.Tensor) -> tf.Tensor:
    """Returns the elements of a list one after the other."""
    sizes = [-1 if size is None else size for size in of.shape.as_list()]
    joined = tf.raw_ops.TensorListConcatV2(
        input_handle=variable.read_value(),
        element_shape=tf.constant(sizes, tf.int32),
        leading_dims=tf.constant([], tf.int64),
        element_dtype=of.dtype,
    ).tensor
    return tf.ensure_shape(joined, of.shape)
