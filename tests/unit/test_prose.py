"""Docstrings name the thing, or say what a function does; they do not begin with a question."""

from __future__ import annotations

import ast
import pathlib

import ps_train

PACKAGE = pathlib.Path(ps_train.__file__).parent
NEVER_FIRST = {"What", "How", "Of", "Whether", "Which", "Who", "Where", "From"}


def first_words(text):
    """(line, first word) of every docstring of a source."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found:
                yield getattr(node, "lineno", 1), found.split()[0].strip(",.:;`")


def test_a_question_is_found_wherever_it_stands():
    source = '"""What it is."""\nclass A:\n    """Who it is."""\n    def f(self):\n        """Returns."""\n'
    assert [(line, word) for line, word in first_words(source) if word in NEVER_FIRST] == [(1, "What"), (2, "Who")]


def test_no_docstring_begins_with_a_question():
    found = {path.relative_to(PACKAGE): first_words(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    assert [f"{path}:{line}: {word}" for path, of in found.items() for line, word in of if word in NEVER_FIRST] == []
