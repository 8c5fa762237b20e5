"""The source of a warm start: the variables of a checkpoint or SavedModel, each whole, read in slices.

    source = SourceCheckpoint("/models/day1")                 # a checkpoint, its directory, or a SavedModel
    source.kinds["users/Adam"]                      # ([1000, 16], tf.float32)
    source.read("users/Adam", 100, 50)              # numpy [50, 16]

TensorFlow 1 may store the parts of a variable, or of its slot, on their own (`w/part_0/Adam`): here they are one.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.engine.run_directory.checkpoint_contents import GLOBAL_STEP, LAYOUTS_KEY, CheckpointValues, Kind
from ps_train.engine.run_directory.run_checkpoints import is_whole
from ps_train.modeling.tables.table_layout import HASHED, LAYOUTS_FILE, OPEN, ROWS, TableLayout, layouts_from
from ps_train.modeling.tables.vocabulary_index import KEYS, UPDATE_COUNT, USED
from ps_train.saved.values import open_saved

_OF_PS_TRAIN = "ps_train/examples"
_PART = re.compile(r"(?P<before>.+)/part_(?P<number>\d+)(?P<after>/.+)?")


class SourceCheckpoint:
    """The variables of one checkpoint.

    Args:
      prefix: path of the checkpoint.
      shown: the path as messages name it.
      layouts: name to layout of the tables; None: those that the checkpoint describes.
      values: the values; None: those of the files.

    Attributes:
      shown: the path as messages name it.
      kinds: name to shape and dtype, of each whole variable; parts that are joined have no name of their own.

    Raises:
      DamagedCheckpointError: it is damaged, or not a checkpoint.
    """

    def __init__(
        self,
        prefix: str,
        shown: str = "",
        layouts: dict[str, TableLayout] | None = None,
        values: CheckpointValues | GivenValues | None = None,
    ) -> None:
        self.shown, self._values = shown or prefix, values or CheckpointValues(prefix)
        self._stored = self._values.kinds
        self._pieces = _pieces_of(self._stored)
        self.kinds = {name: self._kind_of(keys) for name, keys in self._pieces.items()}
        self._layouts = layouts
        if layouts is None and LAYOUTS_KEY in self.kinds:
            self._layouts = layouts_from(self.read(LAYOUTS_KEY).item())

    @property
    def global_step(self) -> int | None:
        """The global step; None if there is none."""
        return self._values.global_step if GLOBAL_STEP in self.kinds else None

    def layout_of(self, name: str, like: TableLayout) -> TableLayout | None:
        """Returns the layout of a table; None if it is not known.

        Args:
          name: name of its variable.
          like: layout of the new table, which counts where the checkpoint describes none.
        """
        if {f"{name}/{part}" for part in (KEYS, USED, UPDATE_COUNT)} <= self.kinds.keys():
            return TableLayout(OPEN, (self.kinds[name][0][0],), in_blocks=False)
        total = self.kinds[name][0][0]
        if self._layouts is not None:
            return self._layouts.get(name, TableLayout(ROWS, (total,), in_blocks=False))
        is_single = not like.by_field and not like.has_defaults
        if _OF_PS_TRAIN in self.kinds:  # of an earlier version
            if like.kind != OPEN and like.total == total:
                return dataclasses.replace(like, in_blocks=True)
            return TableLayout(ROWS if like.kind == OPEN else like.kind, (total,)) if is_single else None
        if like.kind == HASHED:
            return None
        if like.by_field:
            is_fit = sum(like.sizes) == total
            return dataclasses.replace(like, has_defaults=False, in_blocks=False) if is_fit else None
        return TableLayout(ROWS, (total,), in_blocks=False)

    def rows_at_once(self, name: str) -> int:
        """Returns the number of rows of a variable that are read at once."""
        return self._values.rows_at_once(self._pieces.get(name, [name])[0])

    def read(self, name: str, begin: int = 0, count: int = -1) -> np.ndarray[Any, Any]:
        """Returns rows of a variable, or of a part of one, numpy [count, ...]; -1: the whole value.

        Raises:
          DamagedCheckpointError: the file is damaged.
        """
        keys = self._pieces.get(name, [name])
        if len(keys) == 1:
            return self._values.read(keys[0], begin, count)
        end = self.kinds[name][0][0] if count < 0 else begin + count
        found, first = [], 0
        for key in keys:
            rows = self._stored[key][0][0]
            low, high = max(begin, first), min(end, first + rows)
            if low < high:
                found.append(self._values.read(key, low - first, high - low))
            first += rows
        return np.concatenate(found)

    def _kind_of(self, keys: list[str]) -> Kind:
        shape, dtype = self._stored[keys[0]]
        return ([sum(self._stored[key][0][0] for key in keys), *shape[1:]] if len(keys) > 1 else shape), dtype


class GivenValues:
    """Values in memory in the place of a checkpoint's.

    Args:
      values: name to value.

    Attributes:
      kinds: name to shape and dtype.
    """

    def __init__(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._values = values
        self.kinds: dict[str, Kind] = {
            name: (list(value.shape), tf.as_dtype(value.dtype)) for name, value in values.items()
        }

    @property
    def global_step(self) -> int:
        """The global step; -1 if there is none."""
        return int(self._values[GLOBAL_STEP]) if GLOBAL_STEP in self._values else -1

    def rows_at_once(self, key: str) -> int:
        """Returns the number of rows of a variable: all are there."""
        shape, _ = self.kinds[key]
        return max(1, shape[0] if shape else 1)

    def read(self, key: str, begin: int = 0, count: int = -1) -> np.ndarray[Any, Any]:
        """Returns rows of a variable; -1: the whole value."""
        value = self._values[key]
        return value if count < 0 else value[begin : begin + count]


def open_source(path: str, flag: str) -> SourceCheckpoint:
    """Opens a checkpoint, the newest checkpoint of a directory, or a SavedModel.

    Args:
      path: as the user gave it.
      flag: `warm_start=PATH (from SOURCE)`, for errors.

    Raises:
      ConfigError: there is none, or it cannot be read.
    """
    try:
        saved = open_saved(path)
        if not is_whole(saved.values.path):
            raise ConfigError(f"{path} is damaged or incomplete")
        layouts = None
        if saved.folder and os.path.exists(file := os.path.join(saved.folder, LAYOUTS_FILE)):
            with open(file, "rb") as opened:
                layouts = layouts_from(opened.read())
        shown = path if saved.folder or saved.values.path == os.path.abspath(path) else saved.values.path
        return SourceCheckpoint(saved.values.path, shown, layouts)
    except (ConfigError, DamagedCheckpointError, OSError, ValueError) as error:
        raise ConfigError(
            f"{flag}: {str(error).rstrip('.')}; give a checkpoint, its directory or a SavedModel."
        ) from None


def _pieces_of(stored: dict[str, Kind]) -> dict[str, list[str]]:
    """Returns the keys of each variable: one, or those of its parts in their order."""
    parts: dict[str, dict[int, str]] = {}
    for key in stored:
        if match := _PART.fullmatch(key):
            parts.setdefault(match["before"] + (match["after"] or ""), {})[int(match["number"])] = key
    joined = {
        name: [some[number] for number in range(len(some))]
        for name, some in parts.items()
        if name not in stored and set(some) == set(range(len(some))) and _fit(some.values(), stored)
    }
    taken = {key for keys in joined.values() for key in keys}
    return {**{key: [key] for key in stored if key not in taken}, **joined}


def _fit(keys: Any, stored: dict[str, Kind]) -> bool:
    """Returns True if variables can be the parts of one, by rows."""
    return all(stored[key][0] for key in keys) and len({(*stored[key][0][1:], stored[key][1]) for key in keys}) == 1
