"""Usage examples of docstrings, whose calls are compared with what is there.

    for text in blocks_of(module):
        example = Example(text, module)
        example.bound, example.problems, example.unknown

An example is read, and never runs.  A call is compared if its function is known: from the module, from its imports,
from another module of ps_train, or as a method of a value whose class is known.  A variable has the class that the
example or the annotation of a function gives it, or else the class of the module that has its name.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import inspect
import re
import textwrap

import ps_train
from tests.support.documents.annotations import Instance, attribute, instance, is_ours, known_names, returned, seen

BLOCK = re.compile(r"(?:\A|\n *\n)((?: {4,}\S.*\n(?: *\n)*)+)")
"""Indented lines after an empty one.  The further lines of an argument stand directly below its first one."""

CALL = re.compile(r"\b(\w+)\(")


def blocks_of(module):
    """The indented blocks of all docstrings of a module: examples, tables, commands."""
    documented = [ast.parse(inspect.getsource(module))]
    for node in documented:
        documented += [one for one in node.body if isinstance(one, ast.ClassDef | ast.FunctionDef)]
        yield from map(textwrap.dedent, BLOCK.findall((ast.get_docstring(node) or "") + "\n"))


def bind(function, call):
    """Raises TypeError if a function does not take the arguments of a call; `...` stands for any number of them."""
    rest = [isinstance(one, ast.Starred) or getattr(one, "value", None) is ... for one in call.args]
    first = call.args[: rest.index(True)] if any(rest) else call.args
    signature = inspect.signature(function)
    named = {keyword.arg: keyword for keyword in call.keywords if keyword.arg}
    is_partial = any(rest) or len(named) < len(call.keywords)
    (signature.bind_partial if is_partial else signature.bind)(*first, **named)


def element_of(value):
    """An element of an iterable, or the value of a generator with one `yield`; None where that is unknown."""
    if isinstance(value, Instance) and is_ours(value.cls) and hasattr(value.cls, "__iter__"):
        value = returned(attribute(value, "__iter__"))
    return instance(value.arguments[0]) if isinstance(value, Instance) and value.arguments else None


def elements_of(value, count):
    """The elements of a tuple, or `count` elements of another iterable."""
    if isinstance(value, Instance) and value.cls is tuple and value.arguments and ... not in value.arguments:
        return [instance(kind) for kind in value.arguments]
    return [element_of(value)] * count


class Example(ast.NodeVisitor):
    """The values of an example, and its wrong calls; a block that is no Python must not call what ps_train has.

    Attributes:
      bound: number of calls whose arguments the signature takes.
      problems: one line for each wrong call or attribute.
      unknown: called names that are nowhere.
    """

    def __init__(self, text, module):
        self.bound, self.problems, self.unknown = 0, [], set()
        self._module = {"ps_train": ps_train, **vars(module)}
        self._own = {module.__name__.rpartition(".")[2]: module}
        self._names = {}
        try:
            self.visit(ast.parse(text))
        except SyntaxError:
            self.problems = [f"{name}(...): not in Python" for name in CALL.findall(text) if name in known_names()]

    def _wrong(self, node, error):
        self.problems.append(f"{ast.unparse(node)}: {error}")

    def _attribute(self, node, value, name):
        """The attribute of a value; None where it is unknown, or wrong in an object of ps_train."""
        try:
            return None if value is None else attribute(value, name)
        except AttributeError as error:
            if is_ours(value.cls if isinstance(value, Instance) else value):
                self._wrong(node, error)
            return None

    def _assign(self, target, value):
        if isinstance(target, ast.Name):
            self._names[target.id] = value
        elif isinstance(target, ast.Tuple):
            values = elements_of(value, len(target.elts))
            if len(values) != len(target.elts):
                self._wrong(target, f"there are {len(values)} values")
            for one, its_value in zip(target.elts, values, strict=False):
                self._assign(one, its_value)
        else:
            self.visit(target)

    def generic_visit(self, node):
        """Visits what a node consists of: names of a comprehension before what is computed of them."""
        for child in sorted(ast.iter_child_nodes(node), key=lambda child: not isinstance(child, ast.comprehension)):
            self.visit(child)

    def visit_Name(self, node):
        names = {**self._module, **self._names}
        if node.id in names:
            return seen(names[node.id])
        cls = self._module.get(node.id.title().replace("_", ""))
        return Instance(cls) if inspect.isclass(cls) else self._own.get(node.id)

    def visit_Attribute(self, node):
        return self._attribute(node, self.visit(node.value), node.attr)

    def visit_Call(self, node):
        function = self.visit(node.func)
        for argument in (*node.args, *node.keywords):
            self.visit(argument)
        if isinstance(node.func, ast.Name) and node.func.id not in {**self._module, **self._names}:
            names = {**vars(builtins), **known_names()}
            function = names.get(node.func.id)
            self.unknown |= {node.func.id} - names.keys()
        if function is None or isinstance(function, Instance):
            return None
        try:
            bind(function, node)
            self.bound += 1
        except TypeError as error:
            self._wrong(node, error)
        except ValueError:  # written in C, without a signature
            return None
        return returned(function)

    def visit_Subscript(self, node):
        value = self.visit(node.value)
        self.visit(node.slice)
        if not isinstance(value, Instance):
            return None
        if is_ours(value.cls):
            return returned(self._attribute(node, value, "__getitem__"))
        if value.cls is tuple and isinstance(node.slice, ast.Constant):
            return elements_of(value, node.slice.value + 1)[node.slice.value]
        is_mapping = issubclass(value.cls, collections.abc.Mapping) and value.arguments
        return instance(value.arguments[1]) if is_mapping else element_of(value)

    def visit_Assign(self, node):
        value = self.visit(node.value)
        for target in node.targets:
            self._assign(target, value)

    def visit_comprehension(self, node):
        self._assign(node.target, element_of(self.visit(node.iter)))
        for part in node.ifs if isinstance(node, ast.comprehension) else node.body:
            self.visit(part)

    visit_For = visit_comprehension

    def visit_withitem(self, node):
        value = self.visit(node.context_expr)
        if isinstance(value, Instance):
            is_generator = value.cls is collections.abc.Iterator
            enter = None if is_generator else self._attribute(node, value, "__enter__")
            value = element_of(value) if is_generator else returned(enter)
        if node.optional_vars:
            self._assign(node.optional_vars, value)

    def _define(self, node, *names):
        """Carries out an import or a definition; the bodies of functions do not run."""
        space = {**known_names(), **self._module, **self._names, "__name__": "example"}
        try:
            exec(ast.unparse(node), space)
        except (ImportError, NameError) as error:
            if "ps_train" in str(error):
                self._wrong(node, error)
        self._names |= {name: space.get(name) for name in names}

    def visit_ImportFrom(self, node):
        self._define(node, *(alias.asname or alias.name.partition(".")[0] for alias in node.names))

    visit_Import = visit_ImportFrom

    def _visit_body(self, node, own=None):
        outside = dict(self._names)
        self._names |= {one.arg: None for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        if own is not None:
            self._names["self"] = Instance(own)
        for part in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(part)
        self._names = outside

    visit_Lambda = _visit_body

    def visit_FunctionDef(self, node):
        self._define(node, node.name)
        self._visit_body(node)

    def visit_ClassDef(self, node):
        self._define(node, node.name)
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                self._visit_body(part, self._names[node.name])
            else:
                self.visit(part)
