"""A model built in one process with ordinary variables, to score or export a checkpoint.

    with plain_graph(known=shapes_in_the_checkpoint) as plain:
        outputs = model.forward(features, training=False)
    plain.variables                         # name to variable, for each variable of the checkpoint

The model is given the same kinds of objects as in training, so its use of variables works here too.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Container, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.user_variables import ModelBuild, UnknownVariableError, variables_provided_by
from ps_train.modeling.scratch_graph import without_values
from ps_train.modeling.tables.row_source import declared_tables


@dataclasses.dataclass(frozen=True)
class PlainGraph:
    """A model's variables in a plain graph.

    Attributes:
      build: the construction of the model.
      variables: name to variable, without local variables.
    """

    build: ModelBuild
    variables: dict[str, Any]


@contextlib.contextmanager
def plain_graph(known: Container[str] | None = None, where: str = "") -> Iterator[PlainGraph]:
    """Lets a model that is built in the body make ordinary variables.

    Args:
      known: names of the variables that have values; None allows every variable.
      where: the place that has these values, for the error.

    Raises:
      UnknownVariableError: the model makes a variable that is not in `known`.
    """
    variables: dict[str, Any] = {}
    with variables_provided_by(_getter(variables, known, where)) as build:
        yield PlainGraph(build, variables)


def _getter(variables: dict[str, Any], known: Container[str] | None, where: str) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if known is not None and name not in known:
            raise UnknownVariableError(
                f"{where} has no variable {name}, which forward(training=False) makes: the checkpoint is of another "
                "model, or forward() makes other variables in training; use another --model_dir, or make the variable "
                "at every call."
            )
        variable = variables[name] = getter(name, *args, **without_values(kwargs))
        return model_value(name, variable)

    return get


def model_value(name: str, variable: Any) -> Any:
    """Returns the object that a model is given for a variable of the default graph.

    It is the value of a dense trained variable.  It is the variable itself if the variable is a table or not trained.
    """
    if not is_trained(variable) or name in declared_tables(v1.get_default_graph()):
        return variable
    with tf.init_scope(), v1.name_scope(None):
        return variable.read_value()


def is_trained(variable: Any) -> bool:
    """Returns True if an optimizer can update the variable: it is trainable and floating-point."""
    return bool(variable.trainable) and bool(variable.dtype.is_floating)
