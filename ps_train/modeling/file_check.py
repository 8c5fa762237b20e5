"""Checks of the model's file before TensorFlow is imported: it exists, compiles, and has the class and its arguments.

    check_model_file("package.module:Net", {"hidden": "64"}, job.sources)

The file is read, not imported, because the import of a model takes as long as that of TensorFlow.  What the text does
not show, such as names that are made when the module runs, is left to the import (`model.py`).
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import inspect
import sys
import tokenize
from collections.abc import Iterator, Mapping

from ps_train.base.errors import ModelError
from ps_train.base.user_code import line_of
from ps_train.config.model_arguments import convert_arguments, missing_module, split_model_path

_MAKES_NAMES = ("globals", "vars", "exec", "setattr")
_MODEL = ("ps_train.Model", "ps_train.modeling.model.Model")


def check_model_file(path: str, arguments: Mapping[str, str], sources: Mapping[str, str]) -> None:
    """Raises ModelError if the model cannot be made.

    Args:
      path: `package.module:Class`.
      arguments: name to text of the constructor's arguments.
      sources: `name=text` to its source, for errors.
    """
    module_name, class_name = split_model_path(path)
    file = _file_of(path, module_name)
    if file is None:
        return
    module = _Module(path, file)
    if class_name in module.classes:
        parameters = module.parameters(class_name)
        if parameters is not None:
            convert_arguments(path, parameters, arguments, sources)
    elif module.names is not None and class_name not in module.names:
        models = ", ".join(name for name in module.classes if module.may_be_model(name))
        raise ModelError(f"model={path}: {module_name} has no {class_name!r}; its models: {models or 'none'}.")


def model_parameters(path: str) -> dict[str, inspect.Parameter]:
    """Returns the parameters of the model's constructor as its file shows them; {} if it does not show them."""
    module_name, class_name = split_model_path(path)
    file = _file_of(path, module_name)
    module = None if file is None else _Module(path, file)
    return (module.parameters(class_name) or {}) if module is not None and class_name in module.classes else {}


def add_working_directory() -> None:
    """Lets modules of the working directory be found: a console script, unlike `python -m`, does not look there."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _file_of(path: str, module_name: str) -> str | None:
    """Returns the module's source file; None if it has none."""
    add_working_directory()
    folders: list[str] | None = None
    spec: importlib.machinery.ModuleSpec | None = None
    names = module_name.split(".")
    for end in range(1, len(names) + 1):
        name = ".".join(names[:end])
        spec = _find_spec(name, folders)
        if spec is None:
            raise missing_module(path, name)
        if spec.loader is None or spec.origin is None:
            importlib.import_module(name)  # a folder without code; its parts cannot be found without it
        folders = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
        if folders is None and end < len(names):
            raise missing_module(path, ".".join(names[: end + 1]))
    return spec.origin if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _find_spec(name: str, folders: list[str] | None) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, folders) if find else None
        if spec is not None:
            return spec
    return None


class _Module:
    """The text of a module.

    Args:
      path: the model, for errors.
      file: the module's file.

    Attributes:
      classes: the classes that the text defines, by name.
      names: all names that the text binds; None if it may bind others.
    """

    def __init__(self, path: str, file: str) -> None:
        try:
            with tokenize.open(file) as source:
                tree = ast.parse(source.read(), file)
        except SyntaxError as error:
            raise ModelError(
                f"model={path} cannot be imported: {type(error).__name__}: {error.msg} ({line_of(error)})."
            ) from None
        except ValueError as error:
            raise ModelError(f"model={path} cannot be imported: {file}: {type(error).__name__}: {error}") from None
        except OSError as error:
            raise ModelError(f"model={path} cannot be imported: {file}: {error.strerror}.") from None
        nodes = list(_module_level(tree))
        self.path = path
        self.classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        self.names = _bound_names(nodes)
        self._imported = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom) and not node.level
            for alias in node.names
        } | {a.asname: a.name for node in nodes if isinstance(node, ast.Import) for a in node.names if a.asname}

    def may_be_model(self, name: str) -> bool:
        """Returns False for a class that has no base class."""
        node = self.classes[name]
        return bool(node.bases or node.keywords or node.decorator_list)

    def parameters(self, name: str) -> dict[str, inspect.Parameter] | None:
        """Returns the constructor's parameters; None if the text does not show them."""
        node = self.classes[name]
        if not self.may_be_model(name):
            raise ModelError(f"model={self.path}: {name} is not a subclass of ps_train.Model.")
        methods = {child.name: child for child in node.body if isinstance(child, ast.FunctionDef)}
        if node.keywords or node.decorator_list or "__new__" in methods:
            return None
        if "__init__" in methods:
            made = methods["__init__"]
            return None if made.decorator_list else _parameters_of(made.args)
        if len(node.bases) != 1:
            return None
        base = ast.unparse(node.bases[0])
        first, _, rest = base.partition(".")
        full = ".".join(filter(None, [self._imported.get(first, first), rest]))
        if full in _MODEL:
            return {}
        return self.parameters(base) if base in self.classes and base != name else None


def _module_level(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes but those in functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _module_level(child)


def _bound_names(nodes: list[ast.AST]) -> set[str] | None:
    """Returns the names that a module binds; None if it may bind others."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKES_NAMES:
            return None
    return None if names & {"*", "__getattr__"} else names


def _parameters_of(arguments: ast.arguments) -> dict[str, inspect.Parameter]:
    """Returns the parameters after `self`."""
    kinds = inspect.Parameter
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = len(positional) - len(arguments.defaults)
    found = [_parameter(given, index >= needed) for index, given in enumerate(positional)][1:]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [_parameter(given, default is not None) for given, default in pairs]
    if arguments.kwarg:
        found.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return {parameter.name: parameter for parameter in found}


def _parameter(given: ast.arg, has_default: bool) -> inspect.Parameter:
    kinds, note = inspect.Parameter, given.annotation
    text = note.value if isinstance(note, ast.Constant) else ast.unparse(note) if note else ""
    default = None if has_default else kinds.empty
    return kinds(given.arg, kinds.KEYWORD_ONLY, default=default, annotation=str(text))
