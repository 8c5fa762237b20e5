"""The object that a model is given for a trained variable: the pulled value with a variable's interface.

    w = ModelVariable("hidden/w", value)
    features @ w, w[:2], w.read_value(), w.name            # as with TensorFlow's variables

A step computes with one value of each variable.  The object therefore has no handle and cannot be assigned to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import as_saved_value


class NoHandleError(ModelError, AttributeError):
    """The model used an attribute that a pulled value lacks.

    The class is an AttributeError too, so `hasattr` returns False for such an attribute.
    """


class _Op:
    """The operation of the value, with the variable's name."""

    def __init__(self, name: str, op: tf.Operation) -> None:
        self.name, self._op = name, op

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._op, attribute)

    def _as_graph_element(self) -> tf.Operation:
        return self._op


class ModelVariable(v1.Variable):
    """A value that can be used wherever a model may use a variable.

    Args:
      name: the variable's name.
      value: the whole value, in the graph of the model.
      partitioned: True if the model asked for a partitioned variable; iterating over it yields its only part.

    TensorFlow uses it by the private names in `private_tf.OVERRIDDEN`.
    """

    _should_act_as_resource_variable = True
    _save_slice_info = None

    def __init__(self, name: str, value: tf.Tensor, partitioned: bool = False) -> None:
        self._key, self._tensor, self._partitioned = name, value, partitioned
        self._is_guarded = False

    def value(self) -> tf.Tensor:
        """Returns the value of this step."""
        return self._tensor

    def read_value(self) -> tf.Tensor:
        """Returns the value of this step, as a new tensor."""
        return tf.identity(self._tensor)

    def initialized_value(self) -> tf.Tensor:
        """Returns the value of this step: a pulled value is always initialized."""
        return self._tensor

    def is_initialized(self, name: str | None = None) -> tf.Tensor:
        """Returns True and allows the next use of `initial_value`, as ExponentialMovingAverage needs it."""
        self._is_guarded = True
        return tf.constant(True, name=name)

    def as_tensor(self) -> tf.Tensor:
        """Returns the value of this step."""
        return self._tensor

    def eval(self, session: Any = None) -> Any:
        """Computes the value in a session, and returns it as an array."""
        return self._tensor.eval(session=session)

    def sparse_read(self, indices: Any, name: str | None = None) -> tf.Tensor:
        """Returns the rows of the value at these indices."""
        return tf.gather(self._tensor, indices, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> tf.Tensor:
        """Returns the slices of the value at these indices, as `tf.gather_nd` does."""
        return tf.gather_nd(self._tensor, indices, name=name)

    def get_shape(self) -> tf.TensorShape:
        """Returns the static shape."""
        return self._tensor.shape

    def set_shape(self, shape: Any) -> None:
        """Merges a shape into the value's static shape."""
        self._tensor.set_shape(shape)

    def __getitem__(self, item: Any) -> tf.Tensor:
        return self._tensor[item]

    def __iter__(self) -> Iterator[Any]:
        if not self._partitioned:
            raise TypeError("'Variable' object is not iterable.")
        return iter([self])

    def __repr__(self) -> str:
        return f"<ModelVariable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> tf.Tensor:
        return tf.convert_to_tensor(self._tensor, dtype=dtype, name=name)

    def _as_graph_element(self) -> tf.Tensor:
        return self._tensor

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return as_saved_value(self, self._key)

    @property
    def name(self) -> str:
        """The variable's name, with `:0` as for TensorFlow's variables."""
        return f"{self._key}:0"

    @property
    def _shared_name(self) -> str:
        return self._key

    @property
    def op(self) -> Any:
        """The operation that makes the value, under the variable's name."""
        return _Op(self._key, self._tensor.op)

    @property
    def dtype(self) -> tf.DType:
        """The dtype of the value."""
        return self._tensor.dtype

    @property
    def shape(self) -> tf.TensorShape:
        """The static shape of the value."""
        return self._tensor.shape

    @property
    def graph(self) -> tf.Graph:
        """The graph of the value: the one that the model is built in."""
        return self._tensor.graph

    @property
    def device(self) -> str:
        """The device of the value."""
        return str(self._tensor.device)

    @property
    def trainable(self) -> bool:
        """True: a model is given this object only for a trained variable."""
        return True

    @property
    def constraint(self) -> None:
        """None: constraints are refused when the model is traced."""
        return None

    @property
    def synchronization(self) -> Any:
        """TensorFlow's default; the update mode of the job synchronizes."""
        return tf.VariableSynchronization.AUTO

    @property
    def aggregation(self) -> Any:
        """TensorFlow's value for no aggregation; the ps aggregates."""
        return tf.VariableAggregation.NONE

    @property
    def handle(self) -> NoReturn:
        """Raises NoHandleError: the variable itself is on a ps."""
        raise NoHandleError(f"variable {self._key} has no handle in a model, only its value: use the variable itself.")

    @property
    def initializer(self) -> NoReturn:
        """Raises NoHandleError: the job initializes the variable."""
        raise NoHandleError(f"variable {self._key} is initialized by the job: leave out its initializer.")

    @property
    def initial_value(self) -> tf.Tensor:
        """The value, for a branch that never runs; raises NoHandleError unless `is_initialized` was called before."""
        if self._is_guarded:
            self._is_guarded = False
            return self._tensor
        raise NoHandleError(f"variable {self._key} is trained: use its initialized_value().")

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ModelError(
            f"the model assigns to variable {self._key}, which the optimizer trains: make it with trainable=False, or "
            "leave the assignment out."
        )

    assign = assign_add = assign_sub = count_up_to = load = _refuse
    scatter_add = scatter_sub = scatter_update = scatter_div = scatter_mul = scatter_max = scatter_min = _refuse
    scatter_nd_add = scatter_nd_sub = scatter_nd_update = batch_scatter_update = _refuse


def _convert(variable: ModelVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return tf.convert_to_tensor(variable.value(), dtype=dtype, name=name)


tf.register_tensor_conversion_function(ModelVariable, _convert)
