"""Choices: where each variable of a model begins, in a checkpoint or as new.

    choices = choose(model_variables, source, read_map("names.map"))
    choices["users"].outcome            # REMAPPED
    choices["users"].source             # "members"

A name in the map that cannot be used is an error.  A variable that merely has the name of one of the checkpoint, and
does not fit it, starts as new, and the report says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.engine.run_directory.checkpoint_contents import SLICED_DTYPES
from ps_train.engine.variables.trace import ModelVariables, VariableTrace
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.table_layout import OPEN, ROWS, TableLayout, layout_of
from ps_train.modeling.tables.vocabulary_index import CANDIDATES, KEYS, UPDATE_COUNT, USED
from ps_train.saved.warm_start.name_map import MapLine, NameMap
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint
from ps_train.saved.warm_start.table_routes import (
    Array,
    Ids,
    Route,
    keys_of,
    new_ids,
    read_ids,
    route_from_open,
    route_to_open,
    single_row,
    table_route,
)

TAKEN, REMAPPED, FRESH, UNUSED = "taken", "remapped", "fresh", "unused"


@dataclasses.dataclass(frozen=True)
class Beginning:
    """The beginning of a variable.

    Attributes:
      outcome: TAKEN, REMAPPED or FRESH.
      source: the variable of the checkpoint; "" for none.
      note: what the report says.
      route: the way of its rows; None for values that stay where they are.
      read: returns rows of the values in the place of the source's, from the first row and their number; None: those
        of the source.
    """

    outcome: str
    source: str = ""
    note: str = ""
    route: Route | None = None
    read: Callable[[int, int], Array] | None = None


class _Unfit(Exception):
    """A variable of the checkpoint does not fit the one here; the text says why."""


def choose(variables: ModelVariables, source: SourceCheckpoint, names: NameMap) -> dict[str, Beginning]:
    """Returns the choice for each variable of a model.

    Raises:
      ConfigError: the map has a name that does not exist, or one whose values do not fit; or no variable of the
        checkpoint is of this model.
    """
    known = [name for name in variables.variables if not _is_part(name, variables)]
    names.check(known, source.kinds, source.shown)
    found: dict[str, Beginning] = {}
    for name in known:
        found |= _Chooser(variables, source, names).choices_of(name)
    if all(choice.outcome == FRESH for choice in found.values()):
        raise ConfigError(
            f"{source.shown} has no variable that fits one of the model ({', '.join(known[:3])}): it is of another "
            "model; give another checkpoint, or a --warm_start_map."
        )
    return found


def _is_part(name: str, variables: ModelVariables) -> bool:
    """Returns True for a variable of an open vocabulary beside its rows."""
    table, _, part = name.rpartition("/")
    table = table.removesuffix(f"/{CANDIDATES}")
    owner = variables.variables.get(table)
    return part in (KEYS, USED, UPDATE_COUNT) and owner is not None and owner.table is not None and owner.table.is_open


@dataclasses.dataclass
class _Chooser:
    variables: ModelVariables
    source: SourceCheckpoint
    names: NameMap

    def choices_of(self, name: str) -> dict[str, Beginning]:
        """Returns the choices of a variable, and of the vocabulary that belongs to it."""
        variable, old, line = self.variables.variables[name], self.names.old_name(name), self.names.line_of(name)
        parts = [
            part for part in self.variables.variables if part.startswith(f"{name}/") and _is_part(part, self.variables)
        ]
        fresh = dict.fromkeys([name, *parts], Beginning(FRESH))
        if not old:
            return fresh
        try:
            if old not in self.source.kinds:
                return fresh if (default := self._default_row(name)) is None else {name: default}
            if variable.table is None:
                return {name: self._dense(variable, old, line)}
            return fresh | self._table(name, variable.table, old, line)
        except _Unfit as error:
            if line is not None:
                raise ConfigError(f"{line.place}: {name} cannot begin with {old}: {error}.") from None
            return fresh | {name: Beginning(FRESH, note=f"{old}: {error}")}

    def _dense(self, variable: VariableTrace, old: str, line: MapLine | None) -> Beginning:
        shape, dtype = self.source.kinds[old]
        if line is not None and (line.old_vocab or line.new_vocab):
            return self._by_ids(variable, old, line)
        if tuple(shape) != variable.spec.shape:
            raise _Unfit(f"shape {shape}, here {list(variable.spec.shape)}")
        self._check_dtype(dtype, variable)
        return Beginning(TAKEN, old)

    def _by_ids(self, variable: VariableTrace, old: str, line: MapLine) -> Beginning:
        """Returns the choice of a variable that is no table, whose rows are those of the ids in two files."""
        (shape, dtype), here = self.source.kinds[old], list(variable.spec.shape)
        self._check_dtype(dtype, variable)
        if not shape or not here or shape[1:] != here[1:] or dtype not in SLICED_DTYPES:
            raise _Unfit(f"files of ids are for rows, and it has the shape {shape} and dtype {dtype.name}, here {here}")
        before, after = (TableLayout(ROWS, (rows,), in_blocks=False) for rows in (shape[0], here[0]))
        route = table_route(before, after, self._new_ids(line, before, after))
        assert route is not None, "both have rows by id"
        return Beginning(REMAPPED, old, route.note, route)

    def _check_dtype(self, dtype: tf.DType, variable: VariableTrace) -> None:
        if dtype.name != variable.spec.dtype:
            raise _Unfit(f"dtype {dtype.name}, here {variable.spec.dtype}")

    def _table(self, name: str, table: Table, old: str, line: MapLine | None) -> dict[str, Beginning]:
        shape, dtype = self.source.kinds[old]
        self._check_dtype(dtype, self.variables.variables[name])
        if list(shape[1:]) != list(self.variables.variables[name].spec.shape[1:]):
            raise _Unfit(f"rows of {shape[1:]}, here of {list(self.variables.variables[name].spec.shape[1:])}")
        new = layout_of(table)
        layout = self.source.layout_of(old, new)
        if layout is None:
            raise _Unfit("the checkpoint does not say which row an id has")
        if layout.total != shape[0]:
            raise _Unfit(f"{shape[0]} rows, but {layout.total} by its description")
        if layout.kind == OPEN and new.kind == OPEN:
            return self._open_to_open(name, table, old)
        if new.kind == OPEN:
            return self._to_open(name, table, old, layout, line)
        if layout.kind == OPEN:
            return {name: self._from_open(table, old, new, line)}
        ids = None
        if line is not None and (line.old_vocab or line.new_vocab):
            ids = self._new_ids(line, layout, new)
        if ids is None and layout == new:
            return {name: Beginning(TAKEN, old)}
        route = table_route(layout, new, ids)
        if route is None:
            raise _Unfit(_no_route(layout, new))
        return {name: Beginning(REMAPPED, old, route.note, route)}

    def _new_ids(self, line: MapLine, old: TableLayout, new: TableLayout) -> Array:
        if not (line.old_vocab and line.new_vocab):
            raise ConfigError(f"{line.place}: {line.new} has one file of ids: give old_vocab=FILE and new_vocab=FILE.")
        if old.by_field or new.by_field or old.kind != ROWS or new.kind != ROWS:
            raise _Unfit("files of ids are for a table of one field with rows")
        return new_ids(line.old_vocab, line.new_vocab, old.sizes[0], new.sizes[0], line.place)

    def _open_to_open(self, name: str, table: Table, old: str) -> dict[str, Beginning]:
        kinds, parts = self.source.kinds, (KEYS, USED, UPDATE_COUNT)
        ids = Ids(self.source, old)
        if ids.width != self.variables.variables[f"{name}/{KEYS}"].spec.shape[1]:
            raise _Unfit("its ids are strings on one side and whole numbers on the other")
        clock = Beginning(TAKEN, f"{old}/{UPDATE_COUNT}")
        same_groups = kinds[clock.source][0] == [table.groups]
        if same_groups and ids.rows == table.total:
            candidates = [f"{CANDIDATES}/{part}" for part in (KEYS, USED)]
            some = [*parts, *(part for part in candidates if f"{old}/{part}" in kinds and table.admit_after > 1)]
            return {name: Beginning(TAKEN, old)} | {
                f"{name}/{part}": Beginning(TAKEN, f"{old}/{part}") for part in some
            }
        route = route_to_open(ids.read, ids.rows, table, "by id")
        if not same_groups:
            most = int(self.source.read(clock.source).max())
            clock = dataclasses.replace(
                clock, outcome=REMAPPED, read=lambda begin, count: np.full(table.groups if count < 0 else count, most)
            )
        found = {f"{name}/{part}": Beginning(REMAPPED, f"{old}/{part}", route.note, route) for part in (KEYS, USED)}
        return {name: Beginning(REMAPPED, old, route.note, route), **found, f"{name}/{UPDATE_COUNT}": clock}

    def _to_open(
        self, name: str, table: Table, old: str, layout: TableLayout, line: MapLine | None
    ) -> dict[str, Beginning]:
        width = self.variables.variables[f"{name}/{KEYS}"].spec.shape[1]
        if layout.kind != ROWS or layout.by_field:
            raise _Unfit("the ids of its rows are not known")
        if line is not None and line.new_vocab:
            raise ConfigError(f"{line.place}: {name} has capacity, and finds its ids itself: give old_vocab alone.")
        if line is not None and line.old_vocab:
            words = read_ids(line.old_vocab, layout.sizes[0], line.place)
            keys = keys_of(words, table, width, line.place)
        elif width == 1:
            keys = np.arange(layout.sizes[0], dtype=np.int64)[:, np.newaxis]
        else:
            raise _Unfit("the strings of its rows are not known: give old_vocab=FILE in --warm_start_map")

        def stored_keys(begin: int, count: int) -> Array:
            index = layout.indices_at(begin, count)
            return keys[np.minimum(index, len(keys) - 1)]

        def used(begin: int, count: int) -> Array:
            has_id = layout.indices_at(begin, count) < len(keys)
            return np.stack([has_id * table.admit_after, 0 * has_id, 0 * has_id], 1).astype(np.int64)

        def both(begin: int, count: int) -> tuple[Array, Array]:
            return stored_keys(begin, count), used(begin, count)

        route = route_to_open(both, layout.total, table, "each id gets a row of the open vocabulary")
        return {
            name: Beginning(REMAPPED, old, route.note, route),
            f"{name}/{KEYS}": Beginning(REMAPPED, old, "the ids of its rows", route, stored_keys),
            f"{name}/{USED}": Beginning(REMAPPED, old, "as if used when admitted", route, used),
        }

    def _from_open(self, table: Table, old: str, new: TableLayout, line: MapLine | None) -> Beginning:
        if new.kind != ROWS or new.by_field:
            raise _Unfit("it is an open vocabulary, and no id is known to have a certain row here")
        ids, known = Ids(self.source, old), None
        if line is not None and line.old_vocab:
            raise ConfigError(f"{line.place}: {old} is an open vocabulary, which has its ids: give new_vocab alone.")
        if line is not None and line.new_vocab:
            words = read_ids(line.new_vocab, new.sizes[0], line.place)
            known = keys_of(words, table, ids.width, line.place), np.arange(len(words))
        elif ids.width > 1:
            raise _Unfit("its ids are strings: give new_vocab=FILE in --warm_start_map")
        route = route_from_open(ids, new, known)
        return Beginning(REMAPPED, old, route.note, route)

    def _default_row(self, name: str) -> Beginning | None:
        """Returns the choice for the default row of an open vocabulary that was a table with default rows."""
        owner = name.removesuffix("/default")
        variable = self.variables.variables.get(owner)
        old = self.names.old_name(owner)
        if owner == name or variable is None or variable.table is None or old not in self.source.kinds:
            return None
        layout = self.source.layout_of(old, layout_of(variable.table))
        if not variable.table.is_open or layout is None or not layout.has_defaults or layout.by_field:
            return None
        place = int(layout.places_of(np.array([layout.sizes[0]]))[0])
        return Beginning(REMAPPED, old, "its default row", single_row(layout.total, place, 0))


def _no_route(old: TableLayout, new: TableLayout) -> str:
    if old.kind != new.kind:
        return f"declared with {old.kind}, here with {new.kind}"
    if old.by_field != new.by_field:
        return "one of both has rows for each field"
    return (
        f"hash_buckets={_sizes(old)}, here {_sizes(new)}: ids move to other rows, unless the new number is a multiple "
        "of the old one"
    )


def _sizes(layout: TableLayout) -> str:
    return ",".join(map(str, layout.sizes))
