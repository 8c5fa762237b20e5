"""State that a model assigns itself, in forward() or loss(): moving averages, counters.

    state = ModelState({"mean": pulled})        # on the worker, for the length of a step
    with state.loaded():
        loss = ...                              # made with state.variables["mean"], an ordinary variable
    state.values(after=[loss])                  # to be pushed

A step pulls the model's state with everything else, into variables of the worker; the model reads and assigns these in
the order that it says.  Worker 0 pushes the values at the end of the step, and each ps assigns them in the update that
the step makes, under its lock (docs/decisions/0023-state-of-a-model.md).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.transport.parcels import Parcel


@dataclasses.dataclass(frozen=True)
class PushedState:
    """The model's state on its way to one ps.

    Attributes:
      parcels: of the slices there.
      vectors: one for each parcel; none where the replica does not push its state.
    """

    parcels: tuple[Parcel, ...] = ()
    vectors: tuple[tf.Tensor, ...] = ()

    def on_ps(self) -> PushedState:
        """See `Arrived.here`."""
        return dataclasses.replace(self, vectors=tuple(tf.identity(vector) for vector in self.vectors))

    def by_slice(self) -> dict[str, tf.Tensor]:
        """Returns slice name to value, in its shape."""
        found: dict[str, tf.Tensor] = {}
        for parcel, vector in zip(self.parcels, self.vectors, strict=False):
            found |= parcel.split(vector)[0]
        return found


class ModelState:
    """Worker-side variables for one step.

    Args:
      pulled: name to value, whole, on the worker (the device scope of the caller).

    Attributes:
      variables: name to variable.
    """

    def __init__(self, pulled: Mapping[str, tf.Tensor]) -> None:
        self.variables = {name: _variable(name, value) for name, value in pulled.items()}
        self._after: list[Any] = [
            tf.raw_ops.AssignVariableOp(resource=self.variables[name].handle, value=value)
            for name, value in pulled.items()
        ]

    @contextlib.contextmanager
    def loaded(self) -> Iterator[None]:
        """Makes what is built in the body follow the loading, or the batch before it in the same step."""
        with tf.control_dependencies(self._after):
            yield

    def used(self, by: Sequence[Any]) -> None:
        """Makes what is built from now on follow these operations or tensors."""
        if self.variables:
            self._after = list(by)

    def values(self) -> dict[str, tf.Tensor]:
        """Returns the values at the end of the step, by name."""
        with tf.control_dependencies(self._after):
            return {name: variable.read_value() for name, variable in self.variables.items()}


def _variable(name: str, value: tf.Tensor) -> Any:
    """Makes one in no collection: every step gives it a value first.  It says the name that the model gave it, of which
    TensorFlow makes names of other variables."""
    variable = v1.Variable(
        lambda: tf.zeros(value.shape, value.dtype),
        trainable=False,
        collections=[],
        use_resource=True,
        name=f"ps_train/state/{name}",
        dtype=value.dtype,
    )
    variable._handle_name = f"{name}:0"
    return variable
