"""Substitution of a model's variables and lookups by values and rows that are already on the worker.

    with substituting_variables(values, variables), with_lookups(fetch, model_variables) as lookups:
        outputs = model.forward(features, training=True)
    lookups.rows()                          # table name to the rows that the lookups returned

The module does not know the source of the values and rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.user_variables import ModelBuild, UnknownVariableError, variables_provided_by
from ps_train.modeling.tables.deferred_lookups import DeferredLookups, Fetch, OfVocabularies
from ps_train.modeling.tables.row_source import rows_from


@contextlib.contextmanager
def substituting_variables(
    values: Mapping[str, Any], variables: Mapping[str, Any], regularized: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[ModelBuild]:
    """Gives the model existing values and variables when it asks for a variable in the body.

    Args:
      values: variable name to whole value.
      variables: name to variable, for the variables without such a value.
      regularized: variable name to the value that its regularizer gets, if that is another than the model's.

    Raises:
      UnknownVariableError: the model asks for a variable that is in neither.
    """
    with variables_provided_by(_getter(values, variables)) as build:
        build.regularized = regularized
        yield build


def _getter(values: Mapping[str, Any], variables: Mapping[str, Any]) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if name not in values and name not in variables:
            raise UnknownVariableError(
                f"forward() made variable {name}, which it did not make at its first call: make the same variables at "
                "every call."
            )
        with tf.init_scope():
            return tf.convert_to_tensor(values[name]) if name in values else variables[name]

    return get


@contextlib.contextmanager
def with_lookups(
    fetch: Fetch,
    model_variables: ModelVariables,
    dtype: tf.DType = tf.float32,
    device: str = "",
    vocabularies: OfVocabularies | None = None,
) -> Iterator[DeferredLookups]:
    """Resolves all lookups of the body together, at its end.

    Args:
      fetch: function that fetches rows of tables.
      model_variables: has the tables that may be looked up.
      dtype: the dtype in which the model gets the rows.
      device: the device of the rows; "" for that of the first lookup.
      vocabularies: functions on open vocabularies.

    Yields:
      The lookups, whose rows have no value until the end of the body.

    Raises:
      ModelError: the model looks up other tables than in its trace.
    """
    lookups = DeferredLookups(dtype, device, vocabularies)
    with rows_from(lookups):
        yield lookups
    requests = lookups.requests()
    if sorted(requests) != sorted(model_variables.tables()):
        raise ModelError(
            f"forward() looked up the tables {', '.join(requests) or 'none'}, but at its first call "
            f"{', '.join(model_variables.tables()) or 'none'}: look up the same tables at every call."
        )
    if requests:
        lookups.resolve(fetch(requests))
