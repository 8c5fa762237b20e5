"""Loads the values of a job's checkpoint into a Keras model.

    step = load(model, "runs/1")                    # the newest checkpoint of the directory
    step = load(model, "runs/1/model.ckpt-500")     # this one

A checkpoint has a model's variables by the keys of `modeling/keras/names.py`, whatever the number of ps.  The rows of a
table have an order of their own there, and come by id here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import updates_of
from ps_train.engine.run_directory.checkpoint_contents import LAYOUTS_KEY
from ps_train.modeling.keras.names import keyed_slots, keyed_variables
from ps_train.modeling.model import RATE_KEY
from ps_train.modeling.tables.table_layout import TableLayout, layouts_from
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint, open_source

log = logging.getLogger(__name__)

_SLICE = re.compile(r"/part_\d+/")


def load(model: Any, model_dir: str) -> int:
    """Puts a checkpoint's values into a Keras model, and those of its optimizer if the model is compiled.

    An optimizer of another kind than the job's stays new; a line in the log says so.

    Args:
      model: a built model with the names of the one that was trained.
      model_dir: directory of a job, of which the newest checkpoint is taken; or a checkpoint, or a SavedModel.

    Returns:
      The global step of the checkpoint; -1 if it has none.

    Raises:
      ConfigError: there is no checkpoint.
      ModelError: the model is not built, or has other variables.
    """
    if not model.built:
        raise ModelError(
            f"the model {model.name} is not built, so it has no variables to load {model_dir} into: "
            "call it on a batch first."
        )
    source = open_source(str(model_dir), f"model_dir={model_dir}")
    step = -1 if source.global_step is None else source.global_step
    variables = {_key_in(source, model, key): variable for key, variable in keyed_variables(model).items()}
    _check(variables, source)
    slots = _slots_in(model, variables, source)
    layouts = layouts_from(source.read(LAYOUTS_KEY).item()) if LAYOUTS_KEY in source.kinds else {}
    for key, variable in [*variables.items(), *(slots or {}).items()]:
        if key in source.kinds:
            variable.assign(_by_id(source.read(key), _layout_of(key, layouts)))
    if slots is not None:
        updates = updates_of(model.optimizer)
        if not any(variable is updates for variable in slots.values()):
            updates.assign(max(step, 0))
        if RATE_KEY in source.kinds and isinstance(rate := model.optimizer.learning_rate, keras.Variable):
            rate.assign(source.read(RATE_KEY))
    return step


def _slots_in(model: Any, variables: Mapping[str, Any], source: SourceCheckpoint) -> dict[str, Any] | None:
    """Returns key to variable of the optimizer, those that a checkpoint has; None if it is of another optimizer."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return None
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    slots = {_key_in(source, model, key): slot for key, slot in keyed_slots(model).items()}
    found = {key: slot for key, slot in slots.items() if key in source.kinds and not _difference(key, slot, source)}
    missing = [key for key, slot in slots.items() if len(slot.shape) and key not in found]  # a job has no scalars
    of_variables = tuple(f"{key}/" for key in variables)
    known = {*slots, *variables}
    others = [key for key in source.kinds if key.startswith(of_variables) and _SLICE.sub("/part_0/", key) not in known]
    if missing or others:
        log.warning(
            "checkpoint %s is of another optimizer than %s, which starts as new: it has %s",
            source.shown, type(optimizer).__name__, f"no {missing[0]}" if missing else min(others),
        )  # fmt: skip
        return None
    return found


def _key_in(source: SourceCheckpoint, model: Any, key: str) -> str:
    """Returns the key of a variable in a checkpoint; the key here if there is none.

    The paths of a Sequential model begin with its name, unless it was made from its configuration or file.
    """
    name = f"{model.name}/"
    whole = (key, name + key, key.removeprefix(name))
    return next((one for one in [*whole, *map(_of_first_slice, whole)] if one in source.kinds), key)


def _of_first_slice(key: str) -> str:
    """Returns the key of a slot of which every slice of a variable has its own: a scalar, equal in all of them."""
    variable, _, slot = key.rpartition("/")
    return f"{variable}/part_0/{slot}"


def _check(variables: Mapping[str, Any], source: SourceCheckpoint) -> None:
    """Checks that a checkpoint has all weights of a model; seeds of another version of Keras may be missing."""
    if missing := [key for key, variable in variables.items() if key not in source.kinds and not _is_seed(variable)]:
        raise ModelError(
            f"checkpoint {source.shown} has no {missing[0]} ({len(missing)} of {len(variables)} variables are "
            f"missing): {_advice(missing[0], source.kinds)}."
        )
    for key, variable in variables.items():
        if key in source.kinds and (difference := _difference(key, variable, source)):
            raise ModelError(f"checkpoint {source.shown} has {key} of {difference}: it is of another model.")


def _difference(key: str, variable: Any, source: SourceCheckpoint) -> str:
    """Returns how a value of the checkpoint differs in kind from a variable; "" if it does not."""
    (shape, dtype), wanted = source.kinds[key], list(variable.shape)
    if shape != wanted:
        return f"shape {shape}, the model of {wanted}"
    return "" if dtype.name == variable.dtype else f"dtype {dtype.name}, the model of {variable.dtype}"


def _advice(key: str, kinds: Iterable[str]) -> str:
    """Returns what to do where a key is missing: Keras numbers the layers of a process, and so other models too."""
    if like := next((one for one in sorted(kinds) if _unnumbered(one) == _unnumbered(key)), None):
        return (
            f"it has {like}; Keras counts the names of layers per process: give the model and its layers names, or "
            "call keras.utils.clear_session() before the model is made"
        )
    return "it is of another model"


def _unnumbered(key: str) -> str:
    return re.sub(r"_[0-9]+(?=/|$)", "", key)


def _is_seed(variable: Any) -> bool:
    return "seed_generator" in variable.path


def _layout_of(key: str, layouts: Mapping[str, TableLayout]) -> TableLayout | None:
    """Returns the layout of a table's rows, or of a slot of a table; None for other variables."""
    return layouts.get(key) or layouts.get(key.rpartition("/")[0])


def _by_id(value: np.ndarray[Any, Any], layout: TableLayout | None) -> np.ndarray[Any, Any]:
    """Returns the rows of a table by id."""
    if layout is None or not value.ndim or len(value) != layout.total:
        return value
    return value[layout.places_of(np.arange(layout.total))]
