"""The values in files that Keras has written.

    is_weight_file("model.keras")                       # also "model.weights.h5"
    values = values_in("model.keras", model, flag)      # {"sequential/dense/kernel": array, ..., "global_step": 500}

Such a file names values by the structure of its model, so it is read by a model of this structure.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ps_train.base.errors import ConfigError, one_line
from ps_train.base.private_tf import updates_of
from ps_train.modeling.keras.names import OPTIMIZER, keyed_slots, keyed_variables

_SUFFIXES = (".keras", ".weights.h5")
_GLOBAL_STEP = "global_step"


def is_weight_file(path: str) -> bool:
    """Returns True for the name of a file of Keras."""
    return path.endswith(_SUFFIXES)


def check_weight_file(path: str, flag: str) -> None:
    """Raises ConfigError if there is no such file; `flag` is the flag with its value and source."""
    if not os.path.isfile(path):
        raise ConfigError(
            f"{flag}: there is no file {path}; give a checkpoint, or a file that model.save() has written."
        )


def values_in(path: str, model: Any, flag: str) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the values in a file, by the names of variables and slots; the model keeps its own.

    Slots and the global step are among them if the file has the state of an optimizer of this kind.

    Args:
      path: the file.
      model: a compiled model that is built.
      flag: the flag with its value and source, for errors.

    Raises:
      ConfigError: the file is not of this model.
    """
    check_weight_file(path, flag)
    optimizer, variables = model.optimizer, keyed_variables(model)
    everything = [*variables.values(), *optimizer.variables]
    updates = updates_of(optimizer)
    before = [one.numpy() for one in everything]
    try:
        updates.assign(0)
        model.load_weights(path)
        found = {key: one.numpy() for key, one in variables.items()}
        if step := int(updates.numpy()):
            slots = {key: one for key, one in keyed_slots(model).items() if not key.startswith(f"{OPTIMIZER}/")}
            found |= {key: one.numpy() for key, one in slots.items()}
            found[_GLOBAL_STEP] = np.int64(step)
        return found
    except Exception as error:  # Keras raises many kinds
        raise ConfigError(
            f"{flag} does not fit model {model.name}: {one_line(error)}; give a file of a model with the same layers."
        ) from error
    finally:
        for one, value in zip(everything, before, strict=True):
            one.assign(value)
