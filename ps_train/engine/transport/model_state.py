"""State that a model assigns itself, in forward() or loss(), such as moving averages and counters.

    state = ModelState({"mean": pulled})        # on the worker, for the length of a step
    with state.loaded():
        loss = ...                              # made with state.variables["mean"], an ordinary variable
    state.used(by=[loss])
    state.values()                              # to be pushed, after the loss

A step pulls the model's state with all other values, into variables of the worker.  The model reads and assigns these
variables in the order of its own code.  Worker 0 pushes the values at the end of the step.  Each ps assigns them in the
step's update, under its mutex (docs/decisions/0023-state-of-a-model.md).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import rename_variable
from ps_train.base.unsaved_key import UnsavedKey
from ps_train.engine.transport.parcels import Parcel

_LOADING = UnsavedKey("state_loading")


@dataclasses.dataclass(frozen=True)
class PushedState:
    """The model's state as it is sent to one ps.

    Attributes:
      parcels: parcels of the state's slices on that ps.
      vectors: one for each parcel; empty if the replica does not push its state.
    """

    parcels: tuple[Parcel, ...] = ()
    vectors: tuple[tf.Tensor, ...] = ()

    def on_ps(self) -> PushedState:
        """Returns identities of the vectors on the ps; see `ReceivedPush.on_ps`."""
        return dataclasses.replace(self, vectors=tuple(tf.identity(vector) for vector in self.vectors))

    def by_slice(self) -> dict[str, tf.Tensor]:
        """Returns slice name to value, in the slice's shape."""
        found: dict[str, tf.Tensor] = {}
        for parcel, vector in zip(self.parcels, self.vectors, strict=False):
            found |= parcel.split(vector)[0]
        return found


class ModelState:
    """Worker-side variables of the model's state for one step.

    Args:
      pulled: variable name to whole value, on the worker (the device scope of the caller).

    Attributes:
      variables: variable name to the worker's variable.
    """

    def __init__(self, pulled: Mapping[str, tf.Tensor]) -> None:
        self.variables = {name: _variable(name, value) for name, value in pulled.items()}
        self._after: list[Any] = [
            tf.raw_ops.AssignVariableOp(resource=self.variables[name].handle, value=value)
            for name, value in pulled.items()
        ]
        for op in self._after:
            v1.add_to_collection(_LOADING, op)

    @contextlib.contextmanager
    def loaded(self) -> Iterator[None]:
        """Makes operations built in the body run after the loading, or after the step's previous batch."""
        with tf.control_dependencies(self._after):
            yield

    def used(self, by: Sequence[Any]) -> None:
        """Makes later bodies of `loaded`, and `values`, run after these operations or tensors."""
        if self.variables:
            self._after = list(by)

    def values(self) -> dict[str, tf.Tensor]:
        """Returns variable name to value at the end of the step."""
        with tf.control_dependencies(self._after):
            return {name: variable.read_value() for name, variable in self.variables.items()}


def loading_state() -> list[tf.Operation]:
    """Returns the operations of the default graph that load a model's state; each has its variable as first input."""
    found: list[tf.Operation] = v1.get_collection(_LOADING)
    return found


def _variable(name: str, value: tf.Tensor) -> Any:
    """Makes a variable in no collection, since every step assigns it first.

    The variable reports the name that the model gave it, because TensorFlow derives other variables' names from it.
    """
    variable = v1.Variable(
        lambda: tf.zeros(value.shape, value.dtype),
        trainable=False,
        collections=[],
        use_resource=True,
        name=f"ps_train/state/{name}",
        dtype=value.dtype,
    )
    rename_variable(variable, name)
    return variable
