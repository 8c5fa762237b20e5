"""The variables of a plan on their ps: ordinary TensorFlow variables, one for each slice.

slices = make_variables(model_variables, plan, seed=1)
slices["w/part_0"]      # a variable on the device of its ps
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.plan import Plan, Slice
from ps_train.engine.variables.trace import ModelVariables, VariableTrace
from ps_train.modeling.scratch_graph import no_value

_PS_DEVICES = "/job:ps/replica:0/device:CPU:0"

_OF_INPUT = "ps_train/of_input"

OF_PS = "ps_train/of_ps/"
"""Prefix of the keys of what belongs to one ps of a number of them."""


INPUT_STATE = "ps_train/input_state"
"""Part of the names of operations on what a worker's datasets read; they run where the datasets do."""


def ps_device(ps: int) -> str:
    """Returns the device of the ps of an index."""
    return f"/job:ps/replica:0/task:{ps}/device:CPU:0"


def is_ps_device(device: tf.DeviceSpec) -> bool:
    """Returns True for a device of `ps_device`.

    In the process of a worker that is also a ps, the other devices are the worker's.
    """
    return device.job == "ps" and device.device_type == "CPU" and device.device_index == 0


def on_worker(device: str) -> Any:
    """Returns the device scope of a worker's operations.

    A worker that is also a ps has one CPU device more than others, because CPU:0 is the ps's.  There, CPU:0 in the body
    stands for CPU:1, and so on.  Only datasets, iterators and their state stay on CPU:0, where alone their functions
    can run.

    Args:
      device: the worker's device (`cluster/sessions/server.py`).
    """
    own = tf.DeviceSpec.from_string(device)
    if own.job != "ps":
        return v1.device(device)

    def place(op: tf.Operation) -> str:
        inner = tf.DeviceSpec.from_string(op.device)
        if inner.job is not None or op.graph.building_function:  # a function runs where it is called
            return str(op.device)
        is_of_input = INPUT_STATE in op.name or uses_input_resource(op)
        if "Dataset" in op.type or "Iterator" in op.type or is_of_input:
            inner = tf.DeviceSpec(device_type="CPU", device_index=0)
        elif inner.device_type == "CPU":
            inner = inner.replace(device_index=(inner.device_index or 0) + 1)
        return str(own.make_merged_spec(inner).to_string())

    return v1.device(place)


def input_resources(device: str) -> Any:
    """Returns the device scope in which a worker's input is made, inside `on_worker`.

    The functions of a dataset may use tables and variables, and run on CPU:0 as datasets do.  So these are there too,
    also where the worker is a ps; `uses_input_resource` tells them from what is the ps's.

    Args:
      device: the worker's device.
    """
    own = tf.DeviceSpec.from_string(device)
    if own.job != "ps":
        return contextlib.nullcontext()

    def place(op: tf.Operation) -> str:
        is_placed = op.graph.building_function or tf.DeviceSpec.from_string(op.device).job is not None
        if is_placed or not any(tensor.dtype == tf.resource for tensor in op.outputs):
            return str(op.device)
        op.graph.add_to_collection(_OF_INPUT, op)
        return str(own.replace(device_type="CPU", device_index=0).to_string())

    return v1.device(place)


def uses_input_resource(op: tf.Operation) -> bool:
    """Returns True for a table or variable of a worker's input, and for an operation that uses one."""
    made = op.graph.get_collection(_OF_INPUT)
    return bool(made) and (op in made or any(tensor.op in made for tensor in op.inputs))


def read_in_one(variable: Any) -> tf.Tensor:
    """Reads a variable on its ps, in one operation; `read_value` makes two."""
    with tf.device(variable.device):
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def ps_index(variable: Any) -> int:
    """Returns the index of the ps that holds a variable."""
    found = re.search(r"/job:ps/replica:0/task:(\d+)", variable.device)
    assert found is not None, f"{variable.op.name} is on {variable.device}, which is not a ps"
    return int(found[1])


def variable_bytes(variable: Any) -> int:
    """Returns the bytes of a variable's values; its shape must be known."""
    return math.prod(variable.shape.as_list()) * int(variable.dtype.size)


def zeros_variable(name: str, dtype: tf.DType, shape: Sequence[int] = ()) -> Any:
    """Makes a variable of zeros on the present device, which no optimizer trains."""
    return v1.get_variable(name, shape, dtype, v1.zeros_initializer(), trainable=False, use_resource=True)


def make_global_step() -> Any:
    """Makes the global step on the present device, a resource variable whatever those of the program are."""
    with v1.variable_scope(v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False):
        return v1.train.create_global_step()


def make_variables(model_variables: ModelVariables, plan: Plan, seed: int | None) -> dict[str, Any]:
    """Makes a variable for each slice of a plan, and returns the variables by slice name.

    Each ps computes the initial values of its slices; no initial value is sent.

    Args:
      model_variables: have shapes, dtypes and initial values.
      plan: the places of these variables.
      seed: the job's seed; None for a graph that finds the variables initialized, and has no initial values.
    """
    with v1.device(plan_device_setter(plan)):
        return {piece.name: _make(model_variables.variables[piece.variable], piece, seed) for piece in plan.slices}


def plan_device_setter(plan: Plan, worker_device: str = "") -> Any:
    """Returns TensorFlow's `replica_device_setter` with a plan as its `ps_strategy`, for `v1.device`.

    A variable gets the device of the ps that the plan names, other operations get `worker_device`.

    Args:
      plan: the places of the variables; each variable must have the name of a slice.
      worker_device: device of the other operations; "" leaves them where they are.
    """
    places = {piece.name: piece.ps for piece in plan.slices}
    return v1.train.replica_device_setter(
        ps_tasks=plan.num_ps,
        ps_device=_PS_DEVICES,
        worker_device=worker_device,
        ps_strategy=lambda op: places[op.name],
    )


def _make(variable: VariableTrace, piece: Slice, seed: int | None) -> Any:
    def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        if seed is None:
            return no_value(shape, dtype)
        if variable.table:
            return variable.initial_rows(piece.begin, piece.shape[0], seed)
        if piece.count == 1:
            return variable.initial_value(seed)
        return variable.initial_slice(piece.begin, piece.shape[0], seed)

    return v1.get_variable(
        piece.name,
        shape=piece.shape,
        dtype=tf.as_dtype(piece.dtype),
        initializer=initial,
        trainable=variable.trainable,
        use_resource=True,
    )


@dataclasses.dataclass(frozen=True)
class CheckpointEntry:
    """The link between a variable and its place in a checkpoint.

    A checkpoint restores into any number of ps.  Keys with OF_PS are for one number, and are restored last.

    Attributes:
      key: name of the tensor in the checkpoint.
      slice_spec: the part of that tensor, in TensorFlow's notation; "" for all of it.
      variable: the variable that is saved and restored.
      follower: True if the variable is restored but not saved, because another variable has the same key.
      advice: text for the error if a checkpoint lacks the key; "" for the usual text.
      optional: True if a checkpoint may lack the key; the variable then keeps the value that it had.
      former: regular expression of the keys that earlier versions wrote in the place of this one; "" for none.
    """

    key: str
    slice_spec: str
    variable: Any
    follower: bool = False
    advice: str = ""
    optional: bool = False
    former: str = ""

    @property
    def full_shape(self) -> list[int]:
        """Shape of the tensor in the checkpoint."""
        if self.slice_spec:
            return [int(size) for size in self.slice_spec.split(" ")[:-1]]
        return list(self.variable.shape.as_list())

    @property
    def begin(self) -> int:
        """Row of that tensor at which the variable begins."""
        return int(self.slice_spec.rpartition(" ")[2].split(",")[0]) if self.slice_spec else 0


def shared_entries(
    key: str, variables: Mapping[int, Any], num_ps: int, advice: str = "", former: str = ""
) -> list[CheckpointEntry]:
    """Returns the entries of a value of each ps that differs where a ps was restored alone, or lacks a push.

    Args:
      key: name of the first one's value in the checkpoint, which another number of ps restores.
      variables: ps index to variable.
      num_ps: the number of ps.
      advice: see `CheckpointEntry`.
      former: see `CheckpointEntry`.
    """
    first = min(variables)
    entries = [
        CheckpointEntry(key, "", one, follower=ps != first, advice=advice, former=former)
        for ps, one in variables.items()
    ]
    others = [(ps, one) for ps, one in variables.items() if ps != first]
    return entries + [CheckpointEntry(f"{OF_PS}{ps}_of_{num_ps}/{key}", "", one, optional=True) for ps, one in others]


def checkpoint_entries(
    plan: Plan,
    variables: Mapping[str, Any],
    optimizer_variables: Mapping[int, Mapping[str, Sequence[OptimizerVariable]]],
    key_of: Callable[[str, str, int], str],
    slot_key_of: SlotKeys,
) -> list[CheckpointEntry]:
    """Returns the checkpoint entries of all slices and of the optimizers' variables.

    Args:
      plan: the places of the variables.
      variables: slice name to variable.
      optimizer_variables: ps index to group to its optimizer's variables in order.
      key_of: see `OptimizerGroups`.
      slot_key_of: see `OptimizerGroups`.
    """
    entries = [CheckpointEntry(piece.variable, slice_spec(plan, piece), variables[piece.name]) for piece in plan.slices]
    shared: dict[str, dict[int, Any]] = {}
    former: dict[str, str] = {}
    for ps, groups in sorted(optimizer_variables.items()):
        pieces = plan.slices_on(ps)
        for group, made in groups.items():
            counts: dict[str, int] = {}
            for one in made:
                if (piece := _slot_owner(pieces, one.variable.op.name)) is not None:
                    entries.append(_slot_entry(plan, piece, one.variable, group, slot_key_of))
                    continue
                kind = kind_of(one.name)
                counts[kind] = counts.get(kind, 0) + 1
                key = key_of(group, kind, counts[kind])
                shared.setdefault(key, {})[ps] = one.variable
                former[key] = _former(group, kind, counts[kind])
    return entries + [
        entry for key, made in shared.items() for entry in shared_entries(key, made, plan.num_ps, former=former[key])
    ]


@dataclasses.dataclass(frozen=True)
class OptimizerVariable:
    """A variable that an optimizer has made.

    Attributes:
      name: the name that the optimizer gave it; see `given_names`.
    """

    variable: Any
    name: str


SlotKeys = Callable[[str, str, str], str]
_UNIQUE_SUFFIX = re.compile(r"_\d+$")
"""The suffix of a name that is taken already, as the code of an optimizer may give it too."""


def kind_of(name: str) -> str:
    """Returns the kind of an optimizer's variable by the name that the optimizer gave it."""
    return _UNIQUE_SUFFIX.sub("", name)


def _former(group: str, kind: str, number: int) -> str:
    """Returns the pattern of the keys with which earlier versions saved a variable that was made in a condition.

    Control flow of TensorFlow 1, as in programs under --compat, brought its scopes into the names.
    """
    begin = f"{re.escape(group.rstrip('/'))}/" if group else ""
    end = f"_{number}" if number > 1 else "(?:_1)?"
    return rf"{begin}{_CONDITIONS}{re.escape(kind)}{end}"


_CONDITIONS = r"(?:(?:cond|while)(?:_\d+)?/)+"
_OF_A_GROUP = re.compile(rf"(\d+)/{_CONDITIONS}(.+)_(\d+)")


def former_keys(keys: Iterable[str]) -> dict[str, list[str]]:
    """Returns the kind of an optimizer's variable to its keys on the first ps, one for each time that it was made.

    Args:
      keys: the keys of a checkpoint, in which earlier versions saved an Estimator's program.
    """
    found: dict[str, dict[tuple[int, int], str]] = {}
    for key in sorted(keys, key=_numbers):
        if match := _OF_A_GROUP.fullmatch(key):
            found.setdefault(match[2], {}).setdefault((int(match[1]), int(match[3])), key)
    return {kind: [made[which] for which in sorted(made)] for kind, made in found.items()}


def keys_in(kinds: Collection[str], entries: Sequence[CheckpointEntry]) -> list[str]:
    """Returns the key of each entry in a checkpoint, which may be of an earlier version.

    Args:
      kinds: the keys of the checkpoint.
      entries: those of this version.
    """
    found = {pattern: keys_like(kinds, pattern) for pattern in {entry.former for entry in entries}}
    return [_key_in(kinds, entry, found[entry.former]) for entry in entries]


def keys_like(kinds: Collection[str], former: str) -> list[str]:
    """Returns the keys of a checkpoint that a `CheckpointEntry.former` describes, in the order of the ps."""
    return sorted(filter(re.compile(former).fullmatch, kinds), key=_numbers) if former else []


def _key_in(kinds: Collection[str], entry: CheckpointEntry, former: Sequence[str]) -> str:
    """Returns an entry's key in a checkpoint; the former keys are those of the first ps, in order.

    Under asynchronous updates only ps 0 made its update in a condition, so the others had the right key.
    """
    if not former:
        return entry.key
    ps = ps_index(entry.variable)
    if ps < len(former):
        return former[ps]
    return entry.key if entry.key in kinds else former[0]


def _numbers(key: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", key)]


def _slot_owner(pieces: Sequence[Slice], name: str) -> Slice | None:
    owners = [piece for piece in pieces if name.startswith(piece.name + "/")]
    return max(owners, key=lambda piece: len(piece.name), default=None)


def _slot_entry(plan: Plan, piece: Slice, slot: Any, group: str, key_of: SlotKeys) -> CheckpointEntry:
    kind = slot.op.name[len(piece.name) + 1 :]
    part = dataclasses.replace(piece, shape=tuple(slot.shape.as_list()))
    if piece.count > 1 and part.shape[:1] != piece.shape[:1]:
        return CheckpointEntry(key_of(group, piece.name, kind), "", slot)  # not row by row, so no other slice shares it
    return CheckpointEntry(key_of(group, piece.variable, kind), slice_spec(plan, part), slot)


def slice_spec(plan: Plan, piece: Slice) -> str:
    """Returns TensorFlow's notation of a slice: the full shape, then `begin,size` of each dimension."""
    if piece.count == 1:
        return ""
    rows = sum(part.shape[0] for part in plan.slices_of(piece.variable))
    return rows_spec([rows, *piece.shape[1:]], piece.begin, piece.shape[0])


def rows_spec(shape: Sequence[int], begin: int, count: int) -> str:
    """Returns TensorFlow's notation of some rows of a tensor, from its full shape."""
    extents = [f"{begin},{count}", *(f"0,{size}" for size in shape[1:])]
    return f"{' '.join(map(str, shape))} {':'.join(extents)}"
