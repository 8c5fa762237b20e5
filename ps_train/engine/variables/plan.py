"""Placement of variables on the ps: greedy by bytes; where that leaves them uneven, variables are cut into slices.

Slices are along the first dimension.  Whole variables are better where they balance: a worker copies slices together.
A table has one slice on every ps.

    plan = make_plan([VariableSpec("w", (784, 10), "float32", 4)], num_ps=2)
    print(plan.table())

The module is pure: the same variables and number of ps give the same plan in every process.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from ps_train.base.console import human_bytes as human_bytes

MAX_IMBALANCE = 1.2
"""Target for the bytes of the fullest ps over its share.  Variables are cut further until the plan meets it."""

MAX_LARGE_IMBALANCE = 1.02
"""The target where the fullest ps holds `LARGE_BYTES` above its share: its line decides how long a step takes."""

LARGE_BYTES = 1 << 20

MESSAGE_BYTES = 1 << 30
"""Upper bound of a slice's bytes, because TensorFlow's messages end at 2 GiB."""

_MIN_SHARE_TO_CUT = 0.05
"""A slice below this share of a ps's mean bytes is not cut further, because it hardly changes the balance."""


@dataclasses.dataclass(frozen=True)
class VariableSpec:
    """The facts about a variable that its placement needs.

    Attributes:
      name: the variable's name in the model.
      shape: its whole shape; slices are cut along the first dimension.
      dtype: TensorFlow's name of its dtype, such as "float32".
      item_bytes: bytes of one element.
      divisible: True if the variable may be cut into slices.
      spread: True for a table, which has one slice on each ps whatever its size.
      grain: number of consecutive rows that must stay in one slice.
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
        """Bytes of the whole variable."""
        return math.prod(self.shape) * self.item_bytes

    @property
    def max_parts(self) -> int:
        """The largest number of slices that the variable can be cut into."""
        return max(1, self.shape[0] // self.grain) if self.divisible and self.shape else 1


@dataclasses.dataclass(frozen=True)
class Slice:
    """Rows `begin` to `begin + shape[0] - 1` of a variable, on one ps.

    Attributes:
      variable: name of the variable.
      index: position of the slice among the variable's slices, from 0.
      count: number of slices of the variable; 1 if the slice is the whole variable.
      begin: the variable's row that is the slice's first row.
      shape: shape of the slice.
      dtype: TensorFlow's name of the dtype.
      bytes: size of the slice's values.
      ps: index of the ps that holds the slice; -1 before placement.
    """

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
        """The name of the slice's variable on the ps: `w`, or `w/part_0` if `w` has several slices."""
        return self.variable if self.count == 1 else f"{self.variable}/part_{self.index}"

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The ps on which each variable, or each slice of one, lives.

    `make_plan` computes it greedily by bytes: from the largest on, each slice goes to the ps with the fewest bytes.
    A variable is one slice, or several slices along its first dimension.  A variable has several slices if it is a
    table, too large for a message, or cut to fill the ps evenly.  A plan does not change in a run.  Every process of
    the job computes the same plan.

    Attributes:
      num_ps: number of ps; they have the indices 0 to num_ps - 1.
      slices: all slices: the variables in the order of their names, whatever order a process makes them in, each
        variable's slices in the order of their rows.
      weights: the share that each ps should hold, relative to the others; () for even shares.
    """

    num_ps: int
    slices: tuple[Slice, ...]
    weights: tuple[float, ...] = ()

    def on(self, ps: Sequence[int], num_ps: int) -> Plan:
        """Returns the plan with these ps of `num_ps` in the place of its own, in that order."""
        if len(ps) == num_ps:
            return self
        return Plan(num_ps, tuple(dataclasses.replace(piece, ps=ps[piece.ps]) for piece in self.slices))

    def slices_on(self, ps: int) -> list[Slice]:
        """Returns the slices that the ps of this index holds."""
        return [piece for piece in self.slices if piece.ps == ps]

    def slices_of(self, variable: str) -> list[Slice]:
        """Returns a variable's slices in the order of their rows."""
        return [piece for piece in self.slices if piece.variable == variable]

    def bytes_per_ps(self) -> list[int]:
        """Returns the bytes of all slices on each ps, by ps index."""
        return [sum(piece.bytes for piece in self.slices_on(ps)) for ps in range(self.num_ps)]

    def imbalance(self) -> float:
        """Returns the bytes of the fullest ps over its share, which is the mean without weights; 1.0 is even."""
        held, share = self._fullest()
        return held / share if share else 1.0

    def excess(self) -> float:
        """Returns the bytes of the fullest ps above its share."""
        held, share = self._fullest()
        return held - share

    def _fullest(self) -> tuple[int, float]:
        """Returns the bytes of the fullest ps, and those of its share."""
        load, weights = self.bytes_per_ps(), self.weights or (1.0,) * self.num_ps
        shares = [sum(load) * weight / sum(weights) for weight in weights]
        return max(zip(load, shares, strict=True), key=lambda pair: pair[0] / pair[1] if pair[1] else 1.0)

    def is_even(self) -> bool:
        """Returns whether the fullest ps is near enough to its share."""
        return self.imbalance() <= (MAX_LARGE_IMBALANCE if self.excess() > LARGE_BYTES else MAX_IMBALANCE)

    def table(self) -> str:
        """Returns the plan as text: for each ps its bytes and its slices."""
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


def make_plan(
    variables: Sequence[VariableSpec],
    num_ps: int,
    partition_bytes: int = MESSAGE_BYTES,
    weights: Sequence[float] = (),
) -> Plan:
    """Returns the plan for some variables.

    Variables are cut one after the other until the ps are even or no slice is worth cutting: the smallest one whose
    slices are as large as what the fullest ps has too much, or else the one with the largest slices.

    Args:
      variables: the variables to place, in any order.
      num_ps: number of ps.
      partition_bytes: a larger variable is cut even if the balance is good.
      weights: the share that each ps should hold, relative to the others; empty for even shares.
    """
    variables = sorted(variables, key=lambda variable: variable.name)
    parts = {variable.name: 1 for variable in variables}
    for variable in variables:
        if variable.spread:
            parts[variable.name] = min(variable.max_parts, num_ps)
        elif variable.bytes > partition_bytes:
            count = max(num_ps, -(-variable.bytes // MESSAGE_BYTES))
            parts[variable.name] = min(variable.max_parts, count)
    plan = _place(variables, parts, num_ps, weights)
    min_bytes_to_cut = _MIN_SHARE_TO_CUT * sum(variable.bytes for variable in variables) / num_ps
    while not plan.is_even():
        cuttable = [
            v for v in variables if parts[v.name] < _max_parts(v) and v.bytes / parts[v.name] > min_bytes_to_cut
        ]
        if not cuttable:
            break
        by_slice = sorted(cuttable, key=lambda v: (v.bytes / parts[v.name], v.name))
        excess = plan.excess()
        cut = next((v for v in by_slice if v.bytes / parts[v.name] >= excess), by_slice[-1])
        parts[cut.name] = _more_parts(cut, parts[cut.name], num_ps)
        plan = _place(variables, parts, num_ps, weights)
    return plan


def _max_parts(variable: VariableSpec) -> int:
    return 1 if variable.spread else variable.max_parts


def _more_parts(variable: VariableSpec, parts: int, num_ps: int) -> int:
    """Returns the next number of slices: first one for each ps, then twice the present number."""
    return min(variable.max_parts, num_ps if parts < num_ps else 2 * parts)


def _place(variables: Sequence[VariableSpec], parts: Mapping[str, int], num_ps: int, weights: Sequence[float]) -> Plan:
    pieces = [piece for variable in variables for piece in _cut(variable, parts[variable.name], weights)]
    load = [0] * num_ps

    def fullness(ps: int, piece: Slice) -> tuple[float, int]:
        return ((load[ps] + piece.bytes) / weights[ps] if weights else load[ps]), ps

    placed: dict[str, Slice] = {}
    spread = {variable.name for variable in variables if variable.spread}
    for piece in sorted(pieces, key=lambda p: (p.variable not in spread, -p.bytes, p.name)):
        ps = piece.index if piece.variable in spread else min(range(num_ps), key=lambda k: fullness(k, piece))
        load[ps] += piece.bytes
        placed[piece.name] = dataclasses.replace(piece, ps=ps)
    return Plan(num_ps, tuple(placed[piece.name] for piece in pieces), tuple(weights))


def _cut(variable: VariableSpec, count: int, weights: Sequence[float]) -> list[Slice]:
    """Returns `count` slices whose numbers of rows differ by at most one grain, or follow the weights of as many ps."""
    if count == 1:
        return [Slice(variable.name, 0, 1, 0, variable.shape, variable.dtype, variable.bytes)]
    all_grains, row_bytes = variable.shape[0] // variable.grain, variable.bytes // variable.shape[0]
    is_weighted = len(weights) == count and (
        variable.spread or max(weights) / sum(weights) * variable.bytes <= MESSAGE_BYTES
    )
    pieces, begin = [], 0
    for index, grains in enumerate(_divided(all_grains, weights if is_weighted else (1.0,) * count)):
        rows = grains * variable.grain
        shape = (rows, *variable.shape[1:])
        pieces.append(Slice(variable.name, index, count, begin, shape, variable.dtype, rows * row_bytes))
        begin += rows
    return pieces


def _divided(whole: int, weights: Sequence[float]) -> list[int]:
    """Divides a number, of at least as many as there are weights, in proportion to them; every part is at least 1."""
    free = whole - len(weights)
    exact = [free * weight / sum(weights) for weight in weights]
    parts = [int(part) for part in exact]
    most_cut = sorted(range(len(weights)), key=lambda k: (parts[k] - exact[k], k))
    for index in most_cut[: free - sum(parts)]:
        parts[index] += 1
    return [1 + part for part in parts]
