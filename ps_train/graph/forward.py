"""The model is built again, with given values in the variables' place and given rows for its lookups.

    with in_place_of_variables(values, variables), looking_up(fetch, traced) as rows:
        outputs = model.forward(features, training=True)
    rows                                    # table name to the rows that the lookups have been given

Knows nothing of where values and rows come from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from ps_train.embeddings.deferred_lookups import DeferredLookups, Fetch
from ps_train.embeddings.row_source import rows_from
from ps_train.errors import ModelError
from ps_train.placement.trace import ModelVariables
from ps_train.placement.user_variables import ModelBuild, UnknownVariableError, variables_provided_by


@contextlib.contextmanager
def substituting_variables(values: Mapping[str, Any], variables: Mapping[str, Any]) -> Iterator[ModelBuild]:
    """The model is given what stands there instead of making a variable.

    Args:
      values: trainable variable name to its value, whole.
      variables: name to variable, for those that are not trainable.
    """
    with variables_provided_by(_getter(values, variables)) as build:
        yield build


def _getter(values: Mapping[str, Any], variables: Mapping[str, Any]) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if name not in values and name not in variables:
            raise UnknownVariableError(
                f"forward() made variable {name}, which it did not make the first time: build it the same way."
            )
        with tf.init_scope():
            return tf.convert_to_tensor(values[name]) if name in values else variables[name]

    return get


@contextlib.contextmanager
def with_lookups(fetch: Fetch, traced: ModelVariables) -> Iterator[dict[str, tf.Tensor]]:
    """Lookups are answered at the end, all at once; only then is the dict filled."""
    asked, rows = DeferredLookups(), dict[str, tf.Tensor]()
    with rows_from(asked):
        yield rows
    wanted = asked.requests()
    if sorted(wanted) != sorted(traced.tables()):
        raise ModelError(
            f"forward() looked up the tables {', '.join(wanted) or 'none'}, but the first time "
            f"{', '.join(traced.tables()) or 'none'}: build it the same way."
        )
    if wanted:
        asked.resolve(fetch(wanted))
    rows |= asked.rows()
