"""Where every variable lives: greedy by bytes, large variables partitioned into slices along their first dimension.

A table is one slice on every ps.

    plan = make_plan([VariableSpec("w", (784, 10), "float32", 4)], num_ps=2)
    print(plan.table())

Pure: the same variables and number of ps give the same plan in every process.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

MAX_IMBALANCE = 1.2
"""Bytes of the fullest ps over the mean, which slicing brings about where it can."""

PARTITION_BYTES = 4 << 20
"""A larger variable is partitioned over all ps even where the balance does not ask for it: they share its traffic."""


MESSAGE_BYTES = 1 << 30
"""No slice is larger: TensorFlow's messages end at 2 GiB."""

_CRUMB = 0.05
"""A slice below this share of a ps's mean bytes is not cut further: it cannot spoil the balance."""


@dataclasses.dataclass(frozen=True)
class VariableSpec:
    """What must be known of a variable to place it.

    Attributes:
      divisible: whether it may be partitioned.
      spread: it must be, one slice to each ps, whatever its size: a table.
      grain: so many rows stay together.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    item_bytes: int
    divisible: bool = True
    spread: bool = False
    grain: int = 1

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.item_bytes

    @property
    def parts_at_most(self) -> int:
        return max(1, self.shape[0] // self.grain) if self.divisible and self.shape else 1


@dataclasses.dataclass(frozen=True)
class Slice:
    """Rows `begin` to `begin + shape[0]` of a variable (all of it where count is 1), on one ps."""

    variable: str
    index: int
    count: int
    begin: int
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    ps: int = -1

    @property
    def name(self) -> str:
        return self.variable if self.count == 1 else f"{self.variable}/part_{self.index}"

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Plan:
    num_ps: int
    slices: tuple[Slice, ...]

    def slices_on(self, ps: int) -> list[Slice]:
        return [piece for piece in self.slices if piece.ps == ps]

    def slices_of(self, variable: str) -> list[Slice]:
        """A variable's slices in the order of their rows."""
        return [piece for piece in self.slices if piece.variable == variable]

    def bytes_per_ps(self) -> list[int]:
        return [sum(piece.bytes for piece in self.slices_on(ps)) for ps in range(self.num_ps)]

    def imbalance(self) -> float:
        """Bytes of the fullest ps over the mean; 1.0 is even."""
        load = self.bytes_per_ps()
        return max(load) * self.num_ps / sum(load) if sum(load) else 1.0

    def table(self) -> str:
        """The plan for people: which slice lives where, and bytes per ps."""
        lines = []
        for ps, load in enumerate(self.bytes_per_ps()):
            pieces = self.slices_on(ps)
            lines.append(
                f"ps:{ps}  {human_bytes(load)} in {len(pieces)} variable{'s' if len(pieces) != 1 else ''} or slices"
            )
            for piece in pieces:
                rows = f" rows {piece.begin}-{piece.begin + piece.shape[0] - 1}" if piece.count > 1 else ""
                shape = "x".join(map(str, piece.shape)) or "scalar"
                lines.append(f"  {piece.variable}{rows}  {shape} {piece.dtype}  {human_bytes(piece.bytes)}")
        return "\n".join(lines)


def make_plan(variables: Sequence[VariableSpec], num_ps: int, partition_bytes: int = PARTITION_BYTES) -> Plan:
    """Cuts what is larger than `partition_bytes`, then the largest pieces in turn until the balance is good; places."""
    parts = {variable.name: 1 for variable in variables}
    for variable in variables:
        if variable.spread:
            parts[variable.name] = min(variable.parts_at_most, num_ps)
        elif variable.bytes > partition_bytes:
            wanted = max(num_ps, -(-variable.bytes // MESSAGE_BYTES))
            parts[variable.name] = min(variable.parts_at_most, wanted)
    plan = _place(variables, parts, num_ps)
    worth_cutting = _CRUMB * sum(variable.bytes for variable in variables) / num_ps
    while plan.imbalance() > MAX_IMBALANCE:
        uncut = [v for v in variables if parts[v.name] < _most_parts(v) and v.bytes / parts[v.name] > worth_cutting]
        if not uncut:
            break
        largest = max(uncut, key=lambda v: (v.bytes / parts[v.name], v.name))
        parts[largest.name] = _finer(largest, parts[largest.name], num_ps)
        plan = _place(variables, parts, num_ps)
    return plan


def _most_parts(variable: VariableSpec) -> int:
    return 1 if variable.spread else variable.parts_at_most


def _finer(variable: VariableSpec, parts: int, num_ps: int) -> int:
    """The next number of slices: first one for each ps, then twice as many."""
    return min(variable.parts_at_most, num_ps if parts < num_ps else 2 * parts)


def human_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _place(variables: Sequence[VariableSpec], parts: Mapping[str, int], num_ps: int) -> Plan:
    pieces = [piece for variable in variables for piece in _cut(variable, parts[variable.name])]
    load = [0] * num_ps
    placed: dict[str, Slice] = {}
    spread = {variable.name for variable in variables if variable.spread}
    for piece in sorted(pieces, key=lambda p: (p.variable not in spread, -p.bytes, p.name)):
        ps = piece.index if piece.variable in spread else min(range(num_ps), key=lambda k: (load[k], k))
        load[ps] += piece.bytes
        placed[piece.name] = dataclasses.replace(piece, ps=ps)
    return Plan(num_ps, tuple(placed[piece.name] for piece in pieces))


def _cut(variable: VariableSpec, count: int) -> list[Slice]:
    """`count` slices whose numbers of rows differ by one at most (one grain)."""
    if count == 1:
        return [Slice(variable.name, 0, 1, 0, variable.shape, variable.dtype, variable.bytes)]
    grains, more = divmod(variable.shape[0] // variable.grain, count)
    row_bytes = variable.bytes // variable.shape[0]
    pieces, begin = [], 0
    for index in range(count):
        taken = (grains + (1 if index < more else 0)) * variable.grain
        shape = (taken, *variable.shape[1:])
        pieces.append(Slice(variable.name, index, count, begin, shape, variable.dtype, taken * row_bytes))
        begin += taken
    return pieces
