"""One-line errors of a module, made from its syntax tree.

    for mutation in mutations_of(source):
        wrong = mutation.applied_to(source)

A mutation replaces one expression or statement and leaves the rest of the text as it is.  This module knows nothing
about tests.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

_OTHER_BOUND: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OTHER_SIGN: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One replaced piece of a source: `old` begins at character `begin` and becomes `new`."""

    kind: str
    line: int
    begin: int
    old: str
    new: str

    def applied_to(self, source: str) -> str:
        """Returns the mutated source."""
        end = self.begin + len(self.old)
        assert source[self.begin : end] == self.old, f"line {self.line}: the source is another one"
        return source[: self.begin] + self.new + source[end:]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"line {self.line}, {self.kind}: {old[:70]}  ->  {new[:70]}"


def mutations_of(source: str) -> list[Mutation]:
    """Returns every mutation of a source that makes another program of it, in order of place."""
    tree = ast.parse(source)
    starts = _line_starts(source)
    found = {}
    for kind, node, new in _replacements(tree):
        begin, end = (_offset(source, starts, *place) for place in _extent(node))
        if ast.dump(ast.parse(new)) != ast.dump(ast.parse(ast.unparse(node))):
            mutation = Mutation(kind, node.lineno, begin, source[begin:end], new)
            found[begin, mutation.old, new] = mutation
    return [found[key] for key in sorted(found)]


def _replacements(tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yields a kind, the replaced node, and its new text."""
    unchanged = {id(inner) for node in ast.walk(tree) for inner in _left_alone(node)}
    for node in ast.walk(tree):
        if id(node) in unchanged:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            other = _OTHER_BOUND[type(node.ops[0])]()
            yield "comparison", node, f"({ast.unparse(ast.Compare(node.left, [other], node.comparators))})"
        elif isinstance(node, ast.BinOp) and type(node.op) in _OTHER_SIGN and not _is_text(node):
            yield "sign", node, f"({ast.unparse(ast.BinOp(node.left, _OTHER_SIGN[type(node.op)](), node.right))})"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield "sign", node, f"({ast.unparse(node.operand)})"
        elif isinstance(node, ast.BoolOp):
            other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "condition", node, f"({ast.unparse(ast.BoolOp(other_op, node.values))})"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield "bound", node, str(node.value + 1)
        elif isinstance(node, ast.Call) and len(node.args) >= 2 and not _has_star(node):
            swapped = [node.args[1], node.args[0], *node.args[2:]]
            yield "swapped arguments", node, ast.unparse(ast.Call(node.func, swapped, node.keywords))
        elif isinstance(node, ast.Raise):
            yield "removed raise", node, "pass"
        elif _can_be_dropped(node):
            yield "dropped statement", node, "pass"  # type: ignore[misc]


def _can_be_dropped(node: ast.AST) -> bool:
    """True for a call whose value is not used, and for an assignment that has an earlier value: `x += 1`, `a.b = c`."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign)


def _left_alone(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes of types in signatures, which have no effect, and of f-strings, which have no exact place."""
    if isinstance(node, ast.JoinedStr):
        yield from ast.walk(node)
    for field in ("annotation", "returns"):
        if (annotation := getattr(node, field, None)) is not None:
            yield from ast.walk(annotation)


def _is_text(node: ast.BinOp) -> bool:
    texts = (ast.JoinedStr, ast.List, ast.Tuple)
    sides = (node.left, node.right)
    return any(isinstance(s, texts) or (isinstance(s, ast.Constant) and isinstance(s.value, str)) for s in sides)


def _has_star(node: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in node.args)


def _extent(node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _offset(source: str, starts: list[int], line: int, column: int) -> int:
    """Returns the position in characters; the syntax tree counts columns in bytes."""
    begin, end = starts[line - 1], starts[line]
    return begin + len(source[begin:end].encode()[:column].decode())
