"""The names of ps_train in a program, and those of them that are not public.

private(names_in_source("import ps_train; ps_train.fitt()"))     # {"ps_train.fitt"}
"""

from __future__ import annotations

import ast
import types

import ps_train


def is_public(dotted):
    """True for `ps_train.data.Stream`: every module lists the next name.  The attributes of a class are its own."""
    value = ps_train
    for name in dotted.split(".")[1:]:
        if name not in (*value.__all__, "__all__"):
            return False
        value = getattr(value, name)
        if not isinstance(value, types.ModuleType):
            break
    return True


def names_in_source(source):
    """The dotted names of ps_train that a source imports, or reads from what it has imported."""
    found, bound = set(), {}
    nodes = list(ast.walk(ast.parse(source)))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.add(alias.name)
                first = alias.name.partition(".")[0]
                bound[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found.add(f"{node.module}.{alias.name}")
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            if first in bound and "(" not in rest:  # the attribute of a result is not an import
                found.add(f"{bound[first]}.{rest}")
    return {name for name in found if name.partition(".")[0] == "ps_train"}


def private(names):
    return {name for name in names if not is_public(name)}
