"""A mutation: one line of the package made wrong on purpose, and the tests that must notice.

    mutation = Mutation("a dead worker is waited for", "ps_train/…/heartbeat.py", "> allowed", "> 2 * allowed", tests)
    wrong = mutation.applied_to(text)

This module knows nothing about processes or copies of the tree.
"""

from __future__ import annotations

import ast
import dataclasses


class StaleError(Exception):
    """A mutation that no longer fits the code: its old text is missing, or is not unique."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One change of one line.

    Attributes:
      name: a sentence that says what is wrong in the mutated program.
      file: path below the root of the project.
      old, new: the text that is replaced, and its replacement.  `old` occurs exactly once in the file, or in `within`.
      tests: pytest node ids; at least one of them fails under the mutation.
      within: qualified name of the function or class that contains `old`; "" means the whole file.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    within: str = ""

    def applied_to(self, text: str) -> str:
        """Returns the mutated text of the file.

        Raises:
          StaleError: `old` does not occur exactly once.
        """
        begin, end = _extent(text, self.within) if self.within else (0, len(text))
        found = text.count(self.old, begin, end)
        if found != 1:
            place = f"{self.file}, {self.within}" if self.within else self.file
            raise StaleError(
                f"{self.name!r}: {self.old!r} occurs {found} times in {place}, not once: adapt the mutation"
            )
        at = text.index(self.old, begin, end)
        return text[:at] + self.new + text[at + len(self.old) :]


def _extent(text: str, name: str) -> tuple[int, int]:
    """Returns where a function or class begins and ends, in characters."""
    node: ast.Module | ast.FunctionDef | ast.ClassDef = ast.parse(text)
    for part in name.split("."):
        inner = [child for child in node.body if isinstance(child, ast.FunctionDef | ast.ClassDef)]
        named = [child for child in inner if child.name == part]
        if len(named) != 1:
            raise StaleError(f"{len(named)} functions or classes have the name {part!r} of {name!r}, not one")
        (node,) = named
    assert not isinstance(node, ast.Module) and node.end_lineno is not None
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: node.lineno - 1])), sum(map(len, lines[: node.end_lineno]))


def defined_tests(text: str) -> set[str]:
    """Returns the tests that a test file defines: `test_name` and `TestClass::test_name`."""
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found
