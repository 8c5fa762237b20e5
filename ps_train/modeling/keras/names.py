"""Names of a Keras model's variables and of its optimizer's, as graphs and checkpoints have them.

    variable_keys(model.weights)        # ["sequential/dense/kernel", ...]
    keyed_variables(model)              # {"sequential/dense/kernel": variable, ...}, seeds of layers too
    variables_of(optimizer)             # its slots, `iterations`, ...
    slot_names(optimizer, variables)    # {id(slot): SlotName(0, "momentum"), ..: SlotName(None, "iteration")}
    slot_keys(optimizer, variables)     # {id(slot): "sequential/dense/kernel/momentum", ..: "optimizer/iteration"}
    keyed_slots(model)                  # {"sequential/dense/kernel/momentum": slot, ...}

A variable is named by its path.  Keras allows two variables of one path, and characters that TensorFlow does not.
Seeds have numbers that Keras counts per process: here they count per model, in the order of its variables.  A
slot is named by the attribute of its optimizer, or by the name that the optimizer gave it; neither depends on how many
optimizers the process has made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ps_train.base.private_tf import trained_by

Variable = Any
"""A `keras.Variable`."""

OPTIMIZER = "optimizer"
"""First part of the keys of an optimizer's variables that belong to no variable of the model."""

_RESERVED = ("global_step", OPTIMIZER)
_OURS = re.compile("ps_train", re.IGNORECASE)
_NUMBERED_SEED = re.compile(r"^(seed_generator)_[0-9]+/")
_OF_KERAS = re.compile(r"variable(_[0-9]+)?")
"""The name of a variable that was made without one; Keras counts them per process."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.\-/]+")


class SlotName(NamedTuple):
    """The name of an optimizer's variable.

    Attributes:
      owner: index of the model's variable that the slot belongs to; None: it belongs to all, such as `iterations`.
      name: name of the slot, unique among those of its owner.
    """

    owner: int | None
    name: str


def variable_keys(variables: Iterable[Variable]) -> list[str]:
    """Returns a key for each variable: its path, as a name that TensorFlow takes.

    The keys are unique, also for TensorFlow, which makes no difference between upper and lower case.  The key of a
    variable depends on those before it, and not on those after it.
    """
    taken = _Taken(_RESERVED)
    return [taken.free(_valid(variable.path)) for variable in variables]


def keyed_variables(model: Any) -> dict[str, Variable]:
    """Returns key to variable of a model: its weights, then its other state, such as the seeds of dropout."""
    weights = list(model.weights)
    known = {id(variable) for variable in weights}
    variables = weights + [variable for variable in model.variables if id(variable) not in known]
    return dict(zip(variable_keys(variables), variables, strict=True))


def variable_of(variable: Variable) -> tf.Variable:
    """Returns TensorFlow's variable of one of Keras, or itself."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def variables_of(optimizer: Any) -> list[Variable]:
    """Returns the variables of a built optimizer: those that it tells, then those that only an attribute has."""
    found = {id(variable): variable for variable in optimizer.variables}
    of_model = {id(variable) for variable in trained_by(optimizer)}
    for value in vars(optimizer).values():
        for one in value if isinstance(value, list | tuple) else [value]:
            is_variable = isinstance(one, tf.Variable) or isinstance(getattr(one, "value", None), tf.Variable)
            if is_variable and id(one) not in of_model:
                found.setdefault(id(one), one)
    return list(found.values())


def slot_names(optimizer: Any, variables: Sequence[Variable]) -> dict[int, SlotName]:
    """Returns the names of all variables of a built optimizer, those of `variables_of`, by their `id`.

    Args:
      optimizer: a Keras optimizer; also one that wraps others.
      variables: variables of the model, those that the optimizer trains among them.
    """
    index = {id(variable): i for i, variable in enumerate(variables)}
    taken: dict[int | None, _Taken] = {}
    found: dict[int, SlotName] = {}
    for prefix, inner in reversed(list(_with_inner(optimizer))):  # whose variables are those of the outer one too
        places = _places(inner, index)
        for variable in (variable for variable in variables_of(inner) if id(variable) not in found):
            owner, name = _name_of(variable, places, variables, inner)
            name = name if owner is not None else prefix + name
            found[id(variable)] = SlotName(owner, taken.setdefault(owner, _Taken()).free(name))
    return {id(variable): found[id(variable)] for variable in variables_of(optimizer)}


def slot_keys(optimizer: Any, variables: Sequence[Variable]) -> dict[int, str]:
    """Returns the keys of all variables of a built optimizer, by their `id`; they are not those of any variable.

    Args:
      optimizer: a Keras optimizer.
      variables: as `slot_names`; the order must be that in which the keys of the variables were made.
    """
    keys = variable_keys(variables)
    taken = _Taken([*_RESERVED, *keys])
    names = slot_names(optimizer, variables).items()
    return {slot: taken.free(f"{OPTIMIZER if owner is None else keys[owner]}/{name}") for slot, (owner, name) in names}


def keyed_slots(model: Any) -> dict[str, Variable]:
    """Returns key to variable of a compiled model's optimizer, which is built.

    A variable that all variables of the model share, as the product of Nadam, has a key for each of them too: so the ps
    have it, and checkpoints.
    """
    variables, inner = keyed_variables(model), getattr(model.optimizer, "inner_optimizer", model.optimizer)
    names = slot_names(inner, list(variables.values()))
    shared = [one for one in variables_of(inner) if names[id(one)].owner is None]
    trained = {id(variable) for variable in trained_by(inner)}
    beside = {
        f"{key}/{names[id(one)].name}": one
        for key, variable in variables.items()
        for one in shared
        if id(variable) in trained
    }
    keys = slot_keys(model.optimizer, list(variables.values()))
    return beside | {keys[id(one)]: one for one in variables_of(model.optimizer)}


class _Taken:
    """The names that are taken, without regard to case."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in names}

    def free(self, name: str) -> str:
        """Takes a name, with the first number that makes it unique."""
        number, numbered = 0, name
        while numbered.lower() in self._names:
            number += 1
            numbered = f"{name}_{number}"
        self._names.add(numbered.lower())
        return numbered


def _valid(path: str) -> str:
    """Returns a path as a name that TensorFlow takes, and that is not among those of ps_train."""
    path = _FORBIDDEN.sub("_", _NUMBERED_SEED.sub(r"\1/", path))
    name = "/".join(part for part in path.split("/") if part) or "variable"
    if not re.match("[A-Za-z0-9.]", name):
        name = f"v{name}"
    return f"model/{name}" if _OURS.match(name) else name


def _with_inner(optimizer: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Gives an optimizer and those that it wraps, each with the beginning of its names."""
    yield prefix, optimizer
    if (inner := getattr(optimizer, "inner_optimizer", None)) is not None:
        yield from _with_inner(inner, f"{prefix}inner/")
    for number, inner in enumerate(getattr(optimizer, "optimizers", ())):
        yield from _with_inner(inner, f"{prefix}{number}/")


def _places(optimizer: Any, index: dict[int, int]) -> dict[int, SlotName]:
    """Returns owner and attribute of the variables that an optimizer's attributes hold, by their `id`.

    An optimizer keeps a list for each kind of slot, in the order of the variables that it trains.  A list of these
    variables is there too, which tells the order.
    """
    attributes, first = vars(optimizer), optimizer.variables[0]
    lists = {name: value for name, value in attributes.items() if isinstance(value, list) and value}
    lists = {name: value for name, value in lists.items() if value[0] is not first}  # without that of all variables
    trained = next((value for value in lists.values() if all(id(item) in index for item in value)), [])
    found: dict[int, SlotName] = {}
    for name, value in attributes.items():
        found.setdefault(id(value), SlotName(None, name.strip("_")))
    for name, value in lists.items():
        if len(value) == len(trained):
            for owner, item in zip(trained, value, strict=True):
                found.setdefault(id(item), SlotName(index[id(owner)], name.strip("_")))
    return found


def _name_of(
    variable: Variable, places: dict[int, SlotName], variables: Sequence[Variable], optimizer: Any
) -> SlotName:
    """Returns the name of a variable of an optimizer: the one that the optimizer gave it, else that of its attribute.

    Keras names a slot `PATH_NAME`, the path with underscores.
    """
    owner, attribute = places.get(id(variable), SlotName(None, ""))
    begins = {
        i: variables[i].path.replace("/", "_") + "_" for i in (range(len(variables)) if owner is None else [owner])
    }
    fits = [
        i for i, begin in begins.items() if variable.name.startswith(begin) and variable.shape == variables[i].shape
    ]
    if fits:
        longest = max(fits, key=lambda i: len(begins[i]))
        return SlotName(longest, _slot_name(variable.name[len(begins[longest]) :]))
    is_named = getattr(variable, "path", "") == f"{optimizer.name}/{variable.name}" and owner is None
    is_named = is_named and not _OF_KERAS.fullmatch(variable.name)
    return SlotName(owner, _slot_name(variable.name if is_named or not attribute else attribute))


def _slot_name(name: str) -> str:
    """Returns the name of a slot, which follows that of its variable, without further parts."""
    return re.sub(r"[^A-Za-z0-9_]", "_", _valid(name))
