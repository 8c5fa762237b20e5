"""Variables of TensorFlow 1: each one is a `tf.Variable`, and an imported graph gives values by their names.

    isinstance(tf.get_variable("w", [2], use_resource=True), Variable)          # True
    Variable(3.0, name="w")             # a variable of TensorFlow
    import_graph_def(graph_def, return_elements=["w:0"])        # its value

In the TensorFlow of today a resource variable is none of `tf.compat.v1.Variable`, and neither is the object that stands
for a variable in a model of the engine.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.graph_names import value_of

_MADE_BY: Any = type(v1.Variable)


class _AnyVariable(_MADE_BY):
    """The class of `Variable`, which answers for its instances."""

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        if cls is Variable:
            return v1.Variable(*arguments, **options)
        return super().__call__(*arguments, **options)

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: Any) -> bool:
        # Not by issubclass, which asks the subclasses of tf.Variable, and so this class.
        return (tf.Variable if cls is Variable else cls) in subclass.__mro__


class Variable(v1.Variable, metaclass=_AnyVariable):
    """The class `tf.Variable` of TensorFlow 1; the arguments are those of `tf.compat.v1.Variable`."""

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Any:
        """Returns the variable of the default graph that a VariableDef describes, of the kind that it says.

        TensorFlow's makes a reference variable of each, also of a resource, as in the model of an Estimator.
        """
        return v1.Variable(variable_def=variable_def, import_scope=import_scope, use_resource=variable_def.is_resource)


for _name in ("__doc__", "__module__", "__qualname__"):
    setattr(Variable, _name, getattr(v1.Variable, _name))


def give_lost_methods() -> None:
    """Gives variables that are resources the method of TensorFlow 1 that only the other ones still have."""
    tf.Variable.initialized_value = _initialized_value


def _initialized_value(variable: Any) -> Any:
    """Returns the value of a variable, or else its initial value."""
    with tf.init_scope():
        return tf.cond(v1.is_variable_initialized(variable), variable.read_value, lambda: variable.initial_value)


@functools.wraps(v1.import_graph_def)
def import_graph_def(*arguments: Any, **options: Any) -> Any:
    """Imports a graph as TensorFlow's; of the elements that it returns, those of variables are the values."""
    found = v1.import_graph_def(*arguments, **options)
    return found and [value_of(each) if isinstance(each, tf.Tensor) else each for each in found]
