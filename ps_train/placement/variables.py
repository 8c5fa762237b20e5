"""The plan's variables, made on their ps: ordinary TensorFlow variables, one for each slice.

made = make_variables(traced, plan, seed=1)
made["w/part_0"]        # a variable on the device of its ps
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.plan import Plan, Slice
from ps_train.placement.trace import ModelVariables, VariableTrace


def ps_device(ps: int) -> str:
    return f"/job:ps/replica:0/task:{ps}/device:CPU:0"


def ps_index(variable: Any) -> int:
    """The index of the ps on which a variable lives."""
    found = re.search(r"/job:ps/replica:0/task:(\d+)", variable.device)
    assert found is not None, f"{variable.op.name} is on {variable.device}, which is no ps"
    return int(found[1])


def variable_bytes(variable: Any) -> int:
    """What its values take; its shape is known."""
    return math.prod(variable.shape.as_list()) * int(variable.dtype.size)


def scatter_rows(variable: Any, rows: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    """Gives rows (int32 or int64 [k]) of an initialised variable new values ([k, …])."""
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=rows, updates=values)


def make_variables(traced: ModelVariables, plan: Plan, seed: int) -> dict[str, Any]:
    """Slice name to variable.  Initial values are computed on the ps; none travels."""
    return {piece.name: _make(traced.variables[piece.variable], piece, seed) for piece in plan.slices}


def _make(variable: VariableTrace, piece: Slice, seed: int) -> Any:
    def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        if variable.table:
            return variable.initial_rows(piece.begin, piece.shape[0], seed)
        whole = variable.initial_value(seed)
        return whole if piece.count == 1 else whole[piece.begin : piece.begin + piece.shape[0]]

    with tf.device(ps_device(piece.ps)):
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
    """A variable as a checkpoint names it: `key`, and which slice of that key's tensor it is ("" for all of it).

    Keys do not depend on the number of ps, so a checkpoint of one topology restores into any other.
    `follower`: restored from the key but not saved, because another variable saves it.
    `advice`: what to say where a checkpoint does not have the key, if that has a reason of its own.
    """

    key: str
    slice_spec: str
    variable: Any
    follower: bool = False
    advice: str = ""


def checkpoint_entries(
    plan: Plan,
    variables: Mapping[str, Any],
    own: Mapping[int, Mapping[str, Sequence[Any]]],
) -> list[CheckpointEntry]:
    """How the slices, and what optimizers added to them, are named in a checkpoint.

    Args:
      variables: slice name to variable.
      own: ps to group to the variables that the group's optimizer made there, in the order of their making.  A slot
        of a slice is recognised by its name, `<slice>/<slot>`; the others (Adam's powers of beta) exist once on each
        ps with the same value, and are saved from the first ps that has them.
    """
    found = [CheckpointEntry(piece.variable, _spec(plan, piece), variables[piece.name]) for piece in plan.slices]
    seen: set[str] = set()
    for ps, groups in sorted(own.items()):
        pieces = plan.slices_on(ps)
        for group, made in groups.items():
            there: dict[str, int] = {}
            for variable in made:
                piece = _slot_owner(pieces, variable.op.name)
                if piece is not None:
                    found.append(_stored_slot(plan, piece, variable))
                    continue
                kind = _UNIQUE_SUFFIX.sub("", variable.op.name)
                there[kind] = there.get(kind, 0) + 1
                key = "/".join([*([group.rstrip("/")] if group else []), kind])
                key += f"_{there[kind]}" if there[kind] > 1 else ""
                found.append(CheckpointEntry(key, "", variable, follower=key in seen))
                seen.add(key)
    return found


_UNIQUE_SUFFIX = re.compile(r"_\d+$")
"""What TensorFlow adds to a name that is taken: on another ps, or by another group."""


def _slot_owner(pieces: Sequence[Slice], name: str) -> Slice | None:
    owners = [piece for piece in pieces if name.startswith(piece.name + "/")]
    return max(owners, key=lambda piece: len(piece.name), default=None)


def _stored_slot(plan: Plan, piece: Slice, slot: Any) -> CheckpointEntry:
    kind = slot.op.name[len(piece.name) + 1 :]
    shape = tuple(slot.shape.as_list())
    if piece.count > 1 and shape[:1] != piece.shape[:1]:
        return CheckpointEntry(f"{piece.name}/{kind}", "", slot)  # not made of rows: it belongs to this very slice
    return CheckpointEntry(f"{piece.variable}/{kind}", _spec(plan, dataclasses.replace(piece, shape=shape)), slot)


def _spec(plan: Plan, piece: Slice) -> str:
    """TensorFlow's notation of a slice: full shape, then `begin,size` of each dimension."""
    if piece.count == 1:
        return ""
    rows = sum(part.shape[0] for part in plan.slices_of(piece.variable))
    whole = " ".join(map(str, (rows, *piece.shape[1:])))
    extents = [f"{piece.begin},{piece.shape[0]}", *(f"0,{size}" for size in piece.shape[1:])]
    return f"{whole} {':'.join(extents)}"
