"""Tells which rules update each row by itself.

    rules = examined(rules, reasons, optimizer)
    rules[0].whole_reason           # "Lamb computes each row from all rows"
    rules[0].moves_values           # True: a row without a gradient moves too

Two things must be true.  The rule's operations work on each element, or reduce within a row.  And in a trial it makes
some updates of random rows, once together and once in two parts, with equal results; so a number of rows that stands
in it as a constant is found.  Then it makes updates with a gradient of zeros, of rows that had no gradient before and
of rows that had one, and one of slots with other values.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.keras.kernel import Kernel
from ps_train.modeling.keras.rule_kernels import kernel_for
from ps_train.modeling.keras.update_rules import Rule

_CUTS = ((7, 5), (13, 3))
"""Numbers of rows of the two parts.  No number is that of the variable's own rows, which an operation may contain."""

_SCALES = (1.0, 1e3, 1e-3, 1.0)
"""Factors of the gradients of the updates: clipping changes some of them."""

_TOLERANCE = 1e-4
"""Relative to the largest value.  Rules that mix rows differ by more; kernels round the last rows differently."""

_BY_ELEMENT = frozenset(
    re.findall(
        r"\w+",
        """
        Placeholder Const Cast Identity Shape Fill ZerosLike OnesLike StopGradient
        Add AddV2 AddN Sub Mul MulNoNan RealDiv Div DivNoNan FloorDiv FloorMod Mod Neg Abs Sign Square
        SquaredDifference Sqrt Rsqrt Reciprocal Inv Pow Exp Expm1 Log Log1p Xdivy Xlogy Maximum Minimum ClipByValue
        Round Rint Floor Ceil Sin Cos Tanh Sigmoid Erf Relu Softplus
        Equal NotEqual Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr LogicalNot IsFinite IsInf IsNan
        Select SelectV2
        """,
    )
)
"""Types of operations that compute each element from the elements at its place."""

_REDUCTIONS = frozenset(["All", "Any", "Max", "Mean", "Min", "Prod", "Sum"])

_Values = Mapping[str, Any]


def examined(rules: Sequence[Rule], reasons: Sequence[str], optimizer: Any) -> list[Rule]:
    """Returns rules with `whole_reason`, `moves_values`, `moves_slots`, `adds_to_slots` and `kernel`.

    Args:
      rules: the rules.
      reasons: the `whole_reason` of each rule, if it needs the whole variable.
      optimizer: the Keras optimizer that has the rules.
    """
    known: dict[Any, tuple[_Findings, Kernel | None]] = {}
    found = []
    for rule, reason in zip(rules, reasons, strict=True):
        key = rule.graph, len(rule.shape)
        if key not in known:
            known[key] = _examine(rule), kernel_for(optimizer, rule)
        findings, kernel = known[key]
        found.append(
            dataclasses.replace(
                rule,
                whole_reason="" if findings.is_by_row else reason,
                moves_values=findings.moves_values,
                moves_slots=findings.moves_slots,
                adds_to_slots=findings.adds_to_slots,
                kernel=kernel,
            )
        )
    return found


@dataclasses.dataclass(frozen=True)
class _Findings:
    """The findings about a rule; see `Rule`."""

    is_by_row: bool
    moves_values: bool
    moves_slots: bool
    adds_to_slots: bool


def _examine(rule: Rule) -> _Findings:
    if not rule.shape:
        return _Findings(False, True, True, False)
    stays_in_rows = _stays_in_rows(rule)
    cut = next(one for one in _CUTS if rule.shape[0] not in (*one, sum(one)))
    first, rows = cut[0], sum(cut)
    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(device_count={"GPU": 0})) as session:
        try:
            trials = [_Trial(rule, number, session) for number in (rows, *cut)]
            values = start = _values(rule, rows)
            parts = [_cut(rule, values, slice(0, first)), _cut(rule, values, slice(first, rows))]
            is_by_row = True
            for update, gradient in enumerate(_gradients(rule, rows)):
                pieces = (gradient, gradient[:first], gradient[first:])
                values, *parts = [
                    trial.updated(one, piece, update)
                    for trial, one, piece in zip(trials, (values, *parts), pieces, strict=True)
                ]
                is_by_row &= all(_equal(_joined(rule, name, parts), value) for name, value in values.items())
            adds_to_slots = _adds_to_slots(trials[0], start, gradient)
            zeros, moved = np.zeros_like(gradient), set()
            for first_update, before in ((0, start), (len(_SCALES), values)):
                for update in range(first_update, first_update + len(_SCALES)):
                    new = trials[0].updated(before, zeros, update)
                    moved |= {name for name in new if _has_rows(rule, name) and not _equal([new[name]], before[name])}
                    before = new
        except (ValueError, tf.errors.InvalidArgumentError):  # it has the number of rows as a constant
            return _Findings(False, True, True, False)
    return _Findings(stays_in_rows and is_by_row, "variable" in moved, bool(moved - {"variable"}), adds_to_slots)


def _adds_to_slots(trial: _Trial, values: _Values, gradient: Any) -> bool:
    """Returns True if an update changes all slots by the same, whatever their values are."""
    others = {name: value if name == "variable" else value + 0.5 + np.abs(value) for name, value in values.items()}
    new, new_of_others = (trial.updated(some, gradient, 0) for some in (values, others))
    slots = values.keys() - {"variable"}
    return all(_equal([new_of_others[name] - others[name]], new[name] - values[name]) for name in slots)


def _stays_in_rows(rule: Rule) -> bool:
    """Returns True if no operation of a rule brings elements of several rows together."""
    graph = v1.GraphDef.FromString(rule.graph)
    constants = {node.name: node for node in graph.node if node.op == "Const"}
    for node in graph.node:
        if node.op in _REDUCTIONS:
            axes = constants.get(node.input[1].partition(":")[0])
            if axes is None:
                return False
            found = np.atleast_1d(tf.make_ndarray(axes.attr["value"].tensor))
            if not all(axis % len(rule.shape) for axis in found):
                return False
        elif node.op not in _BY_ELEMENT:
            return False
    return True


class _Trial:
    """A rule for a number of rows, in a graph."""

    def __init__(self, rule: Rule, rows: int, session: Any) -> None:
        self._session, self._inputs = session, {}
        placeholders = v1.GraphDef.FromString(rule.graph).node
        for node in placeholders:
            if node.op == "Placeholder":
                self._inputs[node.name] = v1.placeholder(node.attr["dtype"].type, _shape(rule, node.name, rows))
        self._outputs = rule.compute(self._inputs)

    def updated(self, values: _Values, gradient: Any, update: int) -> dict[str, Any]:
        """Returns the values of the variable and the slots after an update."""
        given = {**values, "gradient": gradient, "rate": 1.0, "iterations": update}
        new = self._session.run(self._outputs, {tensor: given[name] for name, tensor in self._inputs.items()})
        return {**values, **new}


def _shape(rule: Rule, name: str, rows: int) -> list[int]:
    """Returns the shape of an input of a rule for a number of rows."""
    if name in ("variable", "gradient"):
        return [rows, *rule.shape[1:]]
    if not name.startswith("slot_"):
        return []
    slot = rule.slots[int(name.removeprefix("slot_"))]
    return [rows, *slot.shape[1:]] if rule.is_by_row(slot) else list(slot.shape)


def _has_rows(rule: Rule, name: str) -> bool:
    return name == "variable" or rule.is_by_row(rule.slots[int(name.removeprefix("slot_"))])


def _values(rule: Rule, rows: int) -> dict[str, Any]:
    """Returns a variable with random rows, and the slots that it has at the beginning."""
    random = np.random.RandomState(0)
    found = {"variable": random.randn(*_shape(rule, "variable", rows))}
    for index, slot in enumerate(rule.slots):
        name = f"slot_{index}"
        if slot.value.shape and rule.is_by_row(slot):
            found[name] = np.resize(slot.value, _shape(rule, name, rows))
        else:
            found[name] = np.full(_shape(rule, name, rows), slot.value)
    return found


def _gradients(rule: Rule, rows: int) -> Iterator[Any]:
    """Yields random gradients, with rows of unequal norms."""
    random = np.random.RandomState(1)
    for scale in _SCALES:
        norms = np.exp(random.randn(rows, *[1] * len(rule.shape[1:])))
        yield random.randn(*_shape(rule, "gradient", rows)) * norms * scale


def _cut(rule: Rule, values: _Values, rows: slice) -> dict[str, Any]:
    return {name: value[rows] if _has_rows(rule, name) else value for name, value in values.items()}


def _joined(rule: Rule, name: str, parts: Sequence[_Values]) -> list[Any]:
    """Returns the values of both parts: joined, or one for each part if they have no rows."""
    values = [one[name] for one in parts]
    return [np.concatenate(values)] if _has_rows(rule, name) else values


def _equal(some: Sequence[Any], value: Any) -> bool:
    """Returns True if all of some values are equal to another one."""
    right = np.asarray(value, np.float64)
    close = _TOLERANCE * np.abs(right).max(initial=0.0, where=np.isfinite(right))
    return all(
        np.shape(one) == right.shape
        and np.allclose(np.asarray(one, np.float64), right, rtol=_TOLERANCE, atol=close, equal_nan=True)
        for one in some
    )
