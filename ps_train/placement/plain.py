"""A model in a plain graph with variables of its own, as when a checkpoint is scored or exported.

    with in_plain_graph(known=shapes_in_the_checkpoint) as plain:
        outputs = model.forward(features, training=False)
    plain.variables                         # name to variable: what a checkpoint has a value for

The model is given what it is given in training, so that whatever it does with its variables works here, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.embeddings.row_source import declared_tables
from ps_train.placement.user_variables import ModelBuild, UnknownVariableError, variables_provided_by


@dataclasses.dataclass(frozen=True)
class PlainGraph:
    """Attributes:
    build: of the model.
    variables: name to variable, of those that are shared.
    """

    build: ModelBuild
    variables: dict[str, Any]


@contextlib.contextmanager
def plain_graph(known: Collection[str] | None = None, where: str = "") -> Iterator[PlainGraph]:
    """Args:
    known: names of variables that have values; None: all may be made.
    where: they have them, for the error.
    """
    made: dict[str, Any] = {}
    with variables_provided_by(_getter(made, known, where)) as build:
        yield PlainGraph(build, made)


def _getter(made: dict[str, Any], known: Collection[str] | None, where: str) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if known is not None and name not in known:
            raise UnknownVariableError(
                f"{where} has no {name}, which forward(training=False) makes: it is of another model, or forward() "
                "does not make the same variables in training; use another --model_dir, or make it at every call."
            )
        variable = made[name] = getter(name, *args, **kwargs)
        return model_value(name, variable)

    return get


def model_value(name: str, variable: Any) -> Any:
    """What a model is given for a variable of the present graph: its value, if it is trained and travels whole."""
    if not is_trained(variable) or name in declared_tables(v1.get_default_graph()):
        return variable
    with tf.init_scope(), v1.name_scope(None):
        return variable.read_value()


def is_trained(variable: Any) -> bool:
    """Optimizers change numbers that have gradients, and no others."""
    return bool(variable.trainable) and bool(variable.dtype.is_floating)
