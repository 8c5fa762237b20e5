"""A function is short and takes few arguments."""

from __future__ import annotations

import ast
import pathlib

import pytest

import ps_train

PACKAGE = pathlib.Path(ps_train.__file__).parent
MOST_LINES, MOST_PARAMETERS = 40, 7


def lines_of(function):
    """From `def` to the last line, the docstring included."""
    return function.end_lineno - function.lineno + 1


def parameters_of(function):
    """The names of all parameters but self and cls; *args and **options are one each."""
    given = function.args
    found = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
    return [parameter.arg for parameter in found if parameter.arg not in ("self", "cls")]


def functions_of(source):
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def too_large(source):
    """Each function that is too long or takes too much: its line, its name and what it has."""
    for function in functions_of(source):
        lines, parameters = lines_of(function), len(parameters_of(function))
        if lines > MOST_LINES or parameters > MOST_PARAMETERS:
            yield f"line {function.lineno}: {function.name} has {lines} lines and {parameters} parameters"


def test_what_is_too_large_is_found():
    long = "def long():\n" + "    pass\n" * MOST_LINES
    wide = "class A:\n    async def wide(self, a, b, /, c, *d, e, f, g=1, **h): ...\n"
    just = "def just(a, b, c, d, *, e, f, g):\n" + "    pass\n" * (MOST_LINES - 1)
    assert list(too_large(long)) == ["line 1: long has 41 lines and 0 parameters"]
    assert list(too_large(wide)) == ["line 2: wide has 1 lines and 8 parameters"]
    assert list(too_large(just)) == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_are_short_and_take_few_arguments(path):
    assert list(too_large(path.read_text())) == []
