"""The loop of a program, as a model of the engine: a step's gradients are those that the program hands over.

The step pulls the values, gives them to the program, waits for gradients, and pushes these.  The data are a number
that nothing reads: the program has its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.compat.distribute.exchange import Exchange
from ps_train.data.arrays import DealtBatches
from ps_train.data.stream import no_autograph
from ps_train.modeling.keras.update_rules import UpdateRules
from ps_train.modeling.model import ENDED, Model

_ENDLESS = 1 << 62
"""A number of steps that no program makes."""

_OF_PROGRAM = "the program's own loop decides it"


class ExchangeModel(Model):
    """A model whose steps are made by the program of this process.

    Args:
      values: name to initial value of the variables that the program's optimizer updates.
      rules: that optimizer's.
      exchange: where the program gets values and gives gradients.
      factor: the gradients are multiplied by it.  An engine's update is of the mean over the workers, and that of a
        strategy of the sum.
    """

    default_learning_rate = 1.0  # a factor of the optimizer's own rate
    gives_advice = False
    ends_itself = True
    may_skip = True  # a round in which all workers end is none
    refused_flags: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("accumulate", "compute_dtype", "learning_rate", "optimizer", "optimizer_arg", "sharding", "towers"),
        _OF_PROGRAM,
    )

    def __init__(
        self,
        values: Mapping[str, np.ndarray[Any, Any]],
        rules: UpdateRules,
        exchange: Exchange,
        factor: float,
    ) -> None:
        self._values, self._rules, self._exchange, self._factor = values, rules, exchange, factor
        self._gradients: dict[str, tf.Tensor] = {}

    def data(self, split: str, data_dir: str) -> Any:
        """Returns a dataset without end of one example a step; there is no test split."""

        def deal(count: int, index: int, start: tf.Tensor) -> tf.data.Dataset:
            return tf.data.Dataset.range(start, _ENDLESS).map(no_autograph(lambda _: (tf.zeros([1]), 1)))

        return DealtBatches(deal) if split == "train" else None

    def forward(self, features: Any, training: bool) -> Any:
        """Returns the loss, which the engine does not know, when the program has given its gradients."""
        if not training:
            raise ModelError("the loop of a program only trains.")
        variables = [v1.get_variable(name, **self._initial(name), use_resource=True) for name in self._values]
        given = [tf.convert_to_tensor(variable) for variable in variables]
        with tf.device("/device:CPU:0"):
            has_ended, *gradients = tf.numpy_function(
                self._next, given, [tf.bool, *(value.dtype for value in self._values.values())]
            )
        has_ended = tf.ensure_shape(has_ended, [])
        self._gradients = {
            name: tf.ensure_shape(gradient, value.shape)
            for (name, value), gradient in zip(self._values.items(), gradients, strict=True)
        }
        v1.add_to_collection(ENDED, has_ended)
        with tf.control_dependencies([has_ended]):
            return tf.zeros([])

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the loss that `forward` returned."""
        return outputs

    def compute_gradients(self, loss: Any, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the gradients of the program."""
        return self._rules.on_worker(self._gradients)

    def optimizer(self, name: str, learning_rate: Any) -> Any:
        """Returns the traced updates for the current ps."""
        return self._rules.optimizer(learning_rate, v1.train.get_or_create_global_step())

    def slot_values(self) -> Mapping[str, Any]:
        """Returns the state of an optimizer that has trained before."""
        return self._rules.slot_values

    def _initial(self, name: str) -> dict[str, Any]:
        """Returns the initial value; with a shape, by which it may be divided, unless its rule needs it whole."""
        value = self._values[name]
        if name in self._rules.not_divisible:
            return {"initializer": value}
        return {"initializer": v1.constant_initializer(value), "shape": value.shape, "dtype": tf.as_dtype(value.dtype)}

    def _next(self, *values: np.ndarray[Any, Any]) -> Sequence[Any]:
        """Returns whether the program has ended, and its gradients, as new arrays; called in a step."""
        found = self._exchange.next_gradients(values)
        if found is None:
            return [np.bool_(True), *(np.zeros_like(value) for value in values)]
        return [np.bool_(False), *(one * one.dtype.type(self._factor) for one in found)]
