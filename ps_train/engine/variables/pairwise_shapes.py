"""Check for shapes that broadcast a batch against itself: [batch, 1] with [batch] gives [batch, batch].

    check_shapes("the loss", [loss], dense_inputs(features, labels))

Such a loss compares each example with the labels of all others.  It trains without an error to a worthless model.

The check imports the graph of the targets once more, with inputs that have a batch size of their own.  TensorFlow then
infers for every tensor which of its dimensions are the batch.  Nothing is run.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.user_code import place_of
from ps_train.data.named_inputs import name_of, source_of

log = logging.getLogger(__name__)

_BATCH = 720_720
"""The batch size of the imported graph: no other dimension has it, and a model can divide it by 2 to 16."""

_ELEMENTWISE = frozenset([
    "Add", "AddV2", "Atan2", "Div", "DivNoNan", "Equal", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Less",
    "LessEqual", "LogicalAnd", "LogicalOr", "Maximum", "Minimum", "Mod", "Mul", "MulNoNan", "NotEqual", "Pow",
    "RealDiv", "SelectV2", "SquaredDifference", "Sub", "TruncateDiv", "TruncateMod", "Xdivy", "Xlog1py", "Xlogy",
])  # fmt: skip
_OF_ONE_RANK = frozenset(["SoftmaxCrossEntropyWithLogits"])
"""Operations that broadcast inputs of the same rank."""

Shape = Sequence[int | None]
Shapes = tuple[Shape, Shape]
Sizes = Callable[[int | None], bool]


def check_shapes(what: str, targets: Any, inputs: Mapping[str, tf.Tensor]) -> None:
    """Checks the operations that some targets depend on.

    Pairs on purpose are legitimate: `x[:, None] - y[None, :]`, and `x[:, None] - x`.

    Args:
      what: name of the targets, for the error.
      targets: nested tensors and operations of one graph.
      inputs: the dense tensors of a batch by name, taken before the model could change their dict.

    Raises:
      ModelError: an operation makes [batch, batch] of [batch, 1] and [batch].
    """
    named = {name: tensor for name, tensor in inputs.items() if tensor.shape.rank}
    sizes = {tf.compat.dimension_value(tensor.shape[0]) for tensor in named.values()}
    ops = [target if isinstance(target, tf.Operation) else target.op for target in tf.nest.flatten(targets)]
    needed = _ancestors(ops)
    suspects = [pair for op in needed for pair in _pairs(op) if pair.may_cross(sizes)]
    if suspects and named:
        exact = _ShapesOfBatch(suspects[0].op.graph, named)
        for pair in suspects:
            shapes = exact.of(pair)
            if shapes is not None and not pair.is_on_purpose(named) and _crosses(pair, shapes, named):
                _report(what, pair, shapes, named)
                return


@dataclasses.dataclass(frozen=True)
class _Pair:
    """Two operands that an operation combines element by element.

    Attributes:
      op: the operation.
      first: index of an operand among its inputs.
      second: index of the other.
    """

    op: tf.Operation
    first: int
    second: int

    def tensors(self, graph: tf.Graph | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the operands, in the operation's graph or in another one with the same operation."""
        op = self.op if graph is None else graph.get_operation_by_name(self.op.name)
        return op.inputs[self.first], op.inputs[self.second]

    def may_cross(self, sizes: Collection[int | None]) -> bool:
        """Returns True if both may be batches along different dimensions; `sizes` are those that a batch may have."""
        first, second = (tensor.shape for tensor in self.tensors())
        if first.rank is None or second.rank is None:
            return True
        return self.cross(
            first.as_list(),
            second.as_list(),
            lambda size: size is None or size in sizes,
            lambda size: size in (1, None),
        )

    def cross(self, first: Shape, second: Shape, is_batch: Sizes, is_one: Sizes = lambda size: size == 1) -> bool:
        """Returns True if with these shapes the batch of each operand is broadcast along the batch of the other."""
        if (len(first) == len(second)) != (self.op.type in _OF_ONE_RANK):
            return False
        rank = max(len(first), len(second))
        both = list(zip([1] * (rank - len(first)) + [*first], [1] * (rank - len(second)) + [*second], strict=True))
        return any(is_batch(one) and is_one(other) for one, other in both) and any(
            is_batch(other) and is_one(one) for one, other in both
        )

    def is_on_purpose(self, named: Mapping[str, tf.Tensor]) -> bool:
        """Returns True if the code asks for pairs: of one tensor with itself, or of two of a kind with a new axis."""
        first, second = self.tensors()
        if self.op.type in _OF_ONE_RANK:
            return False
        if source_of(first) is source_of(second):
            return True
        longer = first if (first.shape.rank or 0) > (second.shape.rank or 0) else second
        return _has_new_axis(longer) and _kind(first, named) == _kind(second, named)


def _pairs(op: tf.Operation) -> Iterator[_Pair]:
    if op.type in _ELEMENTWISE or op.type in _OF_ONE_RANK:
        for first, second in itertools.combinations(range(len(op.inputs)), 2):
            yield _Pair(op, first, second)


def _crosses(pair: _Pair, shapes: Shapes, named: Mapping[str, tf.Tensor]) -> bool:
    """Returns True if the operands are batches along different dimensions.

    An unknown size is taken for the batch if one operand is an input as it came, and the other depends on one.
    """
    if pair.cross(*shapes, {_BATCH}.__contains__):
        return True
    operands = pair.tensors()
    has_input = any(name_of(tensor, named) for tensor in operands) and all(any(_kind(t, named)[:2]) for t in operands)
    return has_input and pair.cross(*shapes, {None, _BATCH}.__contains__)


def _report(what: str, pair: _Pair, shapes: Shapes, named: Mapping[str, tf.Tensor]) -> None:
    """Raises an error if the result is [batch, batch]; warns of any other.

    Raises:
      ModelError: see above.
    """
    operands = [_operand(tensor, shape, named) for tensor, shape in zip(pair.tensors(), shapes, strict=True)]
    text = (
        f"{what} combines {' with '.join(operands)}{place_of([pair.op])}, each example with every other: give both the "
        "same shape, as by tf.squeeze(x, -1); for pairs on purpose write x[:, tf.newaxis] and y[tf.newaxis, :]"
    )
    if max(map(len, shapes)) == 2 and not any(None in shape for shape in shapes):
        raise ModelError(f"{text}.")
    log.warning("%s", text)


def _operand(tensor: tf.Tensor, shape: Shape, named: Mapping[str, tf.Tensor]) -> str:
    shown = ", ".join("batch" if size == _BATCH else "?" if size is None else str(size) for size in shape)
    name = name_of(tensor, named)
    return f"{name} [{shown}]" if name else f"[{shown}]"


def _has_new_axis(tensor: tf.Tensor) -> bool:
    while tensor.op.type in ("Cast", "Identity"):
        tensor = tensor.op.inputs[0]
    op = tensor.op
    return op.type == "ExpandDims" or (op.type == "StridedSlice" and op.get_attr("new_axis_mask") != 0)


def _kind(tensor: tf.Tensor, named: Mapping[str, tf.Tensor]) -> tuple[bool, bool, bool]:
    """Returns whether a tensor depends on features, on labels, and on variables."""
    inputs = {value.ref(): name for name, value in named.items()}
    used = [inputs[t.ref()] for op in _ancestors([tensor.op], inputs) for t in op.outputs if t.ref() in inputs]
    variables = any(
        op.type in ("VarHandleOp", "VariableV2", "Placeholder") and not any(t.ref() in inputs for t in op.outputs)
        for op in _ancestors([tensor.op], inputs)
    )
    return any(name.startswith("feature") for name in used), any(name.startswith("label") for name in used), variables


def _ancestors(ops: Sequence[tf.Operation], stop: Collection[Any] = ()) -> list[tf.Operation]:
    """Returns the operations that some need, in the order of the graph; `stop` are tensors to stop at."""
    found: dict[str, tf.Operation] = {}
    pending = list(ops)
    while pending:
        op = pending.pop()
        if op.name not in found:
            found[op.name] = op
            if not any(tensor.ref() in stop for tensor in op.outputs):
                pending += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return [op for op in ops[0].graph.get_operations() if op.name in found] if ops else []


class _ShapesOfBatch:
    """The shapes of tensors for a batch of `_BATCH` examples.

    A model with a batch size in its code has its own shapes, with each size that a batch has as an unknown one.

    Args:
      graph: the graph of the model.
      named: the inputs, tensors of that graph.
    """

    def __init__(self, graph: tf.Graph, named: Mapping[str, tf.Tensor]) -> None:
        self._graph, self._sizes = tf.Graph(), {tf.compat.dimension_value(tensor.shape[0]) for tensor in named.values()}
        with self._graph.as_default():
            inputs = {
                tensor.name: v1.placeholder(tensor.dtype, [_BATCH, *tensor.shape.as_list()[1:]], "ps_train/input")
                for tensor in named.values()
            }
            self._is_exact = True
            try:
                tf.import_graph_def(graph.as_graph_def(), inputs, name="")
            except (ValueError, TypeError, tf.errors.OpError) as error:  # the model has a batch size in its code
                log.debug("shapes have the model's own batch size: %s", error)
                self._is_exact = False

    def of(self, pair: _Pair) -> Shapes | None:
        """Returns the shapes of both operands; None if a rank is unknown."""
        shapes = tuple(tensor.shape for tensor in pair.tensors(self._graph if self._is_exact else None))
        if any(shape.rank is None for shape in shapes):
            return None
        unknown = () if self._is_exact else self._sizes
        first, second = ([None if size in unknown else size for size in shape.as_list()] for shape in shapes)
        return first, second
