"""Agreement of a script's workers on what their variables are, before the first step.

    agree(task, graph, may_tell=True)       # ConfigError if this graph's names mean other variables than another task's

TensorFlow finds a variable by its name on a ps.  Two workers that make their variables in another order, as from a set
of strings, may place one name on two ps, which makes two variables of it, or train two variables under one name.  The
first task writes its variables to a ps; the others compare theirs with what it wrote.  It is the first graph of each
process that counts.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, LostTaskError
from ps_train.cluster.membership.job_diff import exchanged_uses
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import Record
from ps_train.engine.variables.variable_uses import variable_uses

_KEY, _TABLE = "variables of a script", "ps_train_variables"
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
_ASSIGN = ("AssignVariableOp", "Assign")
_UPDATE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]\w*|(\w*Accumulator\w*ApplyGradient)|(Resource)?Scatter\w+")
_ADVICE = "make variables in the same order in every process, from a sorted list and not from a set"
_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class ScriptVariables(Record):
    """The variables of a script's graph that stand on ps, each by its name there.

    Attributes:
      task: name of the task.
      places: the ps of each.
      kinds: dtype and shape of each.
      uses: marks of each one's uses, where updates need it; a task need not train all of them.
    """

    task: str
    places: dict[str, str]
    kinds: dict[str, str]
    uses: dict[str, list[str]]


def agree(task: Any, graph: tf.Graph, may_tell: bool) -> bool:
    """Compares the variables that a graph has on ps with those of the task that came first.

    Args:
      task: this process's task.
      graph: of this process's session.
      may_tell: writes those of the graph if no task has come yet.

    Returns:
      False if no task has come yet.

    Raises:
      ConfigError: a common name means another variable.
    """
    if task.has_agreed:
        return True
    mine = described(task.cluster.task, graph)
    if not mine.places:
        return True
    try:
        store: KeyValueStore = task.presence.connected_store(0, table=_TABLE)
        text = store.compare_and_set(_KEY, "", mine.to_json()) if may_tell else store.get(_KEY)
        store.close()
    except LostTaskError:  # the session that this is for tells more
        return False
    if text and (lines := differences(ScriptVariables.from_json(text), mine)):
        more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise ConfigError(f"names of variables differ: {'; '.join(lines[:_SHOWN])}{more}: {_ADVICE}.")
    task.has_agreed = bool(text) or may_tell
    return task.has_agreed


def described(task: str, graph: tf.Graph) -> ScriptVariables:
    """Returns the variables of a graph that stand on a ps.

    A local variable is each worker's own, wherever it stands.

    Args:
      task: name of the task.
      graph: of the task's session.
    """
    local = {variable.op.name for variable in graph.get_collection(v1.GraphKeys.LOCAL_VARIABLES)}
    found: dict[str, tf.Operation] = {}
    updates: list[tf.Tensor] = []
    for op in graph.get_operations():
        if op.type in _VARIABLES and op.name not in local and tf.DeviceSpec.from_string(op.device).job == "ps":
            found[tf.compat.as_text(op.get_attr("shared_name")) or op.name] = op
        elif _UPDATE.fullmatch(op.type):
            updates += op.inputs
    values = {name: op.outputs[0] for name, op in found.items()}
    uses = variable_uses(updates, values, {name: _initial(value) for name, value in values.items()})
    unused = set(variable_uses([], values, {}).popitem()[1][1:]) if values else set()
    return ScriptVariables(
        task,
        {name: f"ps:{tf.DeviceSpec.from_string(op.device).task or 0}" for name, op in found.items()},
        {name: f"{op.get_attr('dtype').name} {tf.TensorShape(op.get_attr('shape'))}" for name, op in found.items()},
        {name: marks for name, marks in uses.items() if not unused.issuperset(marks[1:])},
    )


def differences(theirs: ScriptVariables, mine: ScriptVariables) -> list[str]:
    """Returns one line for each name that two tasks both have, and that means another variable.

    The uses are compared of names that TensorFlow may have numbered; others are the program's own.

    Args:
      theirs: variables of the task that came first.
      mine: variables of this task.
    """
    other = theirs.task if theirs.task != mine.task else f"an earlier process of {theirs.task}"
    lines, numbered = [], dict[str, list[str]]()
    for name in sorted(theirs.places.keys() & mine.places.keys()):
        if theirs.kinds.get(name) != mine.kinds[name]:
            lines.append(f"{name} is {theirs.kinds.get(name)} at {other}, {mine.kinds[name]} at {mine.task}")
        elif theirs.places[name] != mine.places[name]:
            lines.append(f"{name} is on {theirs.places[name]} at {other}, on {mine.places[name]} at {mine.task}")
        elif name in theirs.uses and name in mine.uses:
            numbered.setdefault(re.sub(r"_\d+(?=/|$)", "", name), []).append(name)
    for names in numbered.values():
        exchanged = exchanged_uses(*({name: one.uses[name] for name in names} for one in (theirs, mine)))
        lines += [f"{name} at {other} is {' or '.join(found)} at {mine.task}" for name, found in exchanged.items()]
    return lines


def _initial(value: tf.Tensor) -> Any:
    """Returns the tensor of a variable's initial value; None if it has none."""
    return next((op.inputs[1] for op in value.consumers() if op.type in _ASSIGN and op.inputs[0] is value), None)
