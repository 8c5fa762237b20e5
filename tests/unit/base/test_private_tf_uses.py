"""No file but `ps_train/base/private_tf.py` uses a private name of TensorFlow."""

from __future__ import annotations

import ast
import functools
import pathlib
import sys
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train.base import private_tf

PACKAGE = pathlib.Path(ps_train.__file__).parent
SOURCES = {
    str(path.relative_to(PACKAGE)): path.read_text()
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "private_tf.py"
}
ALLOWED_MODULES = {name for name in sys.stdlib_module_names if not name.startswith("_")}
FORBIDDEN_TEXTS = {"_class", "_gradient_op_type", "CustomGradient-", "__inference", "__forward"}
FORBIDDEN_TEXTS |= {"keras.src", "keras.src.utils.naming", "tensorflow.python"}


def classes_in(sources: dict[str, str]) -> dict[str, ast.ClassDef]:
    trees = (ast.walk(ast.parse(source)) for source in sources.values())
    return {node.name: node for tree in trees for node in tree if isinstance(node, ast.ClassDef)}


def defined_in(tree: ast.AST) -> set[str]:
    """All names that a source or class defines: functions, variables, and attributes of `self`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            is_own = isinstance(node, ast.Name) or (isinstance(node.value, ast.Name) and node.value.id == "self")
            found |= {node.id if isinstance(node, ast.Name) else node.attr} if is_own else set()
    return found


def members_of(node: ast.ClassDef) -> set[str]:
    """The methods and variables of a class itself, without those of its objects."""
    names = {target.id for item in node.body for target in getattr(item, "targets", []) if isinstance(target, ast.Name)}
    return names | {item.name for item in node.body if isinstance(item, ast.FunctionDef)}


def with_bases(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> set[str]:
    """All names that a class and its bases in the package define."""
    bases = (classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes)
    return defined_in(node).union(*(with_bases(base, classes) for base in bases))


def is_private(name: str) -> bool:
    if name in ("_replace", "_asdict", "_fields"):  # methods of every named tuple
        return False
    return name.startswith("__tf_") or (name.startswith("_") and not name.startswith("__") and name != "_")


def foreign_names(source: str, classes: dict[str, ast.ClassDef]) -> list[str]:
    """Private names that a source uses and that are not of this package, each with its line."""
    tree = ast.parse(source)
    own = defined_in(tree)
    of_self = own.union(*(with_bases(node, classes) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            if base not in ALLOWED_MODULES and node.attr not in (of_self if base in ("self", "cls") else own):
                found.append((node.lineno, node.attr))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("attr"):
            texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            found += [(node.lineno, text) for text in texts if isinstance(text, str) and is_private(text)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode(errors="replace")
            found += [(node.lineno, text)] if text in FORBIDDEN_TEXTS else []
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found += [(node.lineno, name) for name in modules if name.startswith(("tensorflow.python", "keras.src"))]
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("tf.python", "tf.__internal__"):
            found.append((node.lineno, ast.unparse(node)))
        if isinstance(node, ast.ClassDef):  # a name that the package defines and does not use is used by TensorFlow
            unused = {name for name in members_of(node) - used if is_private(name)}
            found += [(node.lineno, name) for name in unused - private_tf.OVERRIDDEN.keys()]
    return [f"line {line}: {name}" for line, name in sorted(found)]


@functools.cache
def classes() -> dict[str, ast.ClassDef]:
    """Those of the package."""
    return classes_in(SOURCES)


def test_no_other_file_uses_a_private_name() -> None:
    found = {name: foreign_names(source, classes()) for name, source in SOURCES.items()}
    used = {name: names for name, names in found.items() if names}
    assert used == {}, "use a function of ps_train/base/private_tf.py, or add one"


def tensorflow_bases(node: ast.ClassDef) -> list[Any]:
    """The classes of TensorFlow from which a class derives, directly or not."""
    found = []
    for base in node.bases:
        text = ast.unparse(base)
        if text.startswith(("tf.", "v1.")):
            found.append(eval(text, {"tf": tf, "v1": v1}))
        elif text in classes():
            found += tensorflow_bases(classes()[text])
    return found


def overridden() -> set[str]:
    """The private names of TensorFlow's classes that classes of the package define again."""
    return {
        name
        for node in classes().values()
        for base in tensorflow_bases(node)
        for name in defined_in(node)
        if is_private(name) and hasattr(base, name)
    }


def test_every_overridden_name_is_listed_and_every_listed_name_is_overridden() -> None:
    assert {"_create_slots", "_shared_name"} <= overridden() <= private_tf.OVERRIDDEN.keys()
    assert private_tf.OVERRIDDEN.keys() <= {name for node in classes().values() for name in defined_in(node)}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(op):\n    op._update_input(0, 1)\n", ["line 2: _update_input"]),
        ("f = x().op._id\n", ["line 1: _id"]),
        ("x = getattr(op, '_id_value', None)\n", ["line 1: _id_value"]),
        ("setattr(op, '_id_value', 1)\n", ["line 1: _id_value"]),
        ("y = variable.__tf_tensor__()\n", ["line 1: __tf_tensor__"]),
        ("node.attr.pop('_class', None)\n", ["line 1: _class"]),
        ("a = b'CustomGradient-'\n", ["line 1: CustomGradient-"]),
        ("from tensorflow.python.ops import math_ops\n", ["line 1: tensorflow.python.ops"]),
        ("import tensorflow.python as p\n", ["line 1: tensorflow.python"]),
        ("x = tf.__internal__.types\n", ["line 1: tf.__internal__"]),
        ("class A(v1.train.Optimizer):\n    def f(self):\n        return self._name\n", ["line 3: _name"]),
        ("class A(v1.train.Optimizer):\n    def _valid_dtypes(self):\n        return 1\n", ["line 1: _valid_dtypes"]),
        ("class A(v1.train.Optimizer):\n    def _prepare(self):\n        return os._exit(1)\n", []),
        ("class A:\n    def __init__(self):\n        self._x = 1\n    def f(self, other):\n        other._x\n", []),
        ("class A(Chunk):\n    def f(self):\n        return self._entries\n", ["line 3: _entries"]),
        ("class A(Bounded):\n    def f(self):\n        return self._clocks(), super().__init__()\n", []),
    ],
)
def test_a_private_name_is_found_wherever_it_stands(source: str, found: list[str]) -> None:
    assert foreign_names(source, classes()) == found
