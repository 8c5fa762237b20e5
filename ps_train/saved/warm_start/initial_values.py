"""Initial values that the chief sends to the ps, because only it may have them.

They are the rows that a table begins with, and values of other checkpoints (`tf.train.init_from_checkpoint`).

    values = InitialValues(model_variables, plan, variables, device, seed=1)
    values.write(session)                   # after the variables are initialized

The values are fed in parts, so they are in no graph and may be larger than TensorFlow's messages.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import CHUNK_CALL
from ps_train.engine.variables.plan import Plan
from ps_train.engine.variables.trace import ModelVariables, VariableTrace
from ps_train.engine.variables.variables import CheckpointEntry, slice_spec
from ps_train.modeling.tables.given_rows import indices_at
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE
from ps_train.modeling.tables.table_layout import layout_of
from ps_train.saved.warm_start.choices import REMAPPED, TAKEN, Beginning
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint
from ps_train.saved.warm_start.table_routes import Array, table_route
from ps_train.saved.warm_start.writing import Target, write

log = logging.getLogger(__name__)


class InitialValues:
    """The values and the operations that write them, in the default graph.

    Args:
      plan: the places of these variables.
      variables: slice name to variable.
      device: device of the chief.
      seed: the job's seed.
    """

    def __init__(
        self, model_variables: ModelVariables, plan: Plan, variables: Mapping[str, Any], device: str, seed: int
    ) -> None:
        self._seed = seed
        self._given = [
            (variable, Target(_entries(plan, name, variables), device))
            for name, variable in model_variables.variables.items()
            if variable.given is not None
        ]
        self._sources: dict[str, SourceCheckpoint] = {}
        self._taken = [
            (_choice(variable, self._source(variable.checkpoint.path)), variable.checkpoint.path, target)
            for name, variable in model_variables.variables.items()
            if variable.checkpoint is not None
            for target in [Target(_entries(plan, name, variables), device)]
        ]
        self._after = tf.group(*v1.get_collection(AFTER_RESTORE))

    def write(self, session: v1.Session) -> None:
        """Writes the values into the variables, which are initialized.

        Raises:
          ModelError: the rows that a function gives do not fit its table, or a checkpoint cannot be read.
        """
        for variable, target in self._given:
            target.write_all(session, _reader_of_given(variable, self._seed))
        for choice, path, target in self._taken:
            write(session, target, self._source(path), choice)
        if self._taken:
            session.run(self._after, options=CHUNK_CALL)

    def _source(self, path: str) -> SourceCheckpoint:
        if path not in self._sources:
            self._sources[path] = SourceCheckpoint(path)
        return self._sources[path]


def _entries(plan: Plan, name: str, variables: Mapping[str, Any]) -> list[CheckpointEntry]:
    return [CheckpointEntry(name, slice_spec(plan, piece), variables[piece.name]) for piece in plan.slices_of(name)]


def _choice(variable: VariableTrace, source: SourceCheckpoint) -> Beginning:
    """Returns the choice of a variable of which the model says what it begins with; its shape is that of the source."""
    value, table = variable.checkpoint, variable.table
    assert value is not None
    if table is None or table.is_open:
        return Beginning(TAKEN, value.key)
    new = layout_of(table)
    old = source.layout_of(value.key, new) if value.key in source.kinds else None
    in_blocks = old is not None and old.in_blocks
    if new.in_blocks or in_blocks:
        order = "in ps_train's order of rows" if in_blocks else "row i for id i"
        log.info("table %s takes %s of checkpoint %s, %s", table.name, value.key, value.path, order)
    if in_blocks == new.in_blocks:
        return Beginning(TAKEN, value.key)
    return Beginning(REMAPPED, value.key, route=table_route(dataclasses.replace(new, in_blocks=in_blocks), new))


def _reader_of_given(variable: VariableTrace, seed: int) -> Callable[[int, int], Array]:
    """Returns a function that reads the rows that a table begins with, as `Target.write_all` takes it."""
    table, rows = variable.table, variable.given_rows(seed)
    assert table is not None

    def read(begin: int, count: int) -> Array:
        return rows[indices_at(table, begin, table.total if count < 0 else count)]

    return read
