"""Each task's configuration for a script: `TF_CONFIG`, and the classic flags where the script defines them.

    texts = script_texts("train.py")
    task_flags(defined_flags(texts), ["--steps=100"], cluster, "worker", 1)
    # ["--job_name=worker", "--task_index=1", "--ps_hosts=127.0.0.1:4001", "--worker_hosts=..."]

Standard library only, since the launcher uses it.
"""

from __future__ import annotations

import ast
import importlib.machinery
import json
import os
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence

from ps_train.base.errors import ConfigError

CLASSIC_FLAGS = ("job_name", "task_index", "ps_hosts", "worker_hosts")
_JOB_NAME, _TASK_INDEX = "job_name", "task_index"
_OTHER_NAMES = {"task_id": _TASK_INDEX}
"""Names that a flag has in many programs, and the classic one of the same meaning."""

_DEFINES = r"""(?:DEFINE_\w+|add_argument|add_option|option)\(\s*(?:["'][^"']*["']\s*,\s*)*["'](?:--)?%s["']"""
_DEPTH = 5
"""Assignments that a value is followed through, at most."""


def script_texts(script: str, is_module: bool = False) -> list[str]:
    """Returns the text of a script, and of the modules of its program that it imports.

    Those of a script are beside it, those of a module also below the folder of its package, and both in the folders of
    PYTHONPATH.

    Args:
      script: its path, or the name of a module.
      is_module: whether it is the name of a module.

    Raises:
      ConfigError: the script cannot be read, or there is no such module.
    """
    path = _path_of_module(script) if is_module else pathlib.Path(script)
    folders = [path.parent, *([path.parents[script.count(".")]] if is_module else [])]
    folders += [pathlib.Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    try:
        texts, todo, seen = [], [path], {path}
        while todo:
            texts.append(todo.pop().read_text(errors="replace"))
            for name in _imported(texts[-1]):
                for module in [folder / f"{name.replace('.', '/')}.py" for folder in folders]:
                    if module not in seen and module.is_file():
                        seen.add(module)
                        todo.append(module)
        return texts
    except OSError as error:
        raise ConfigError(f"the script {script} cannot be read ({error.strerror}): give the path of a file.") from None


def _path_of_module(name: str) -> pathlib.Path:
    """Returns the file that `python -m` runs for the name of a module; no module is imported."""
    places: Sequence[str] | None = [os.getcwd(), *sys.path]
    for part in name.split("."):  # by its last part: the full name needs the imported package
        spec = importlib.machinery.PathFinder.find_spec(part, places)
        if spec is None:
            break
        places = spec.submodule_search_locations
    else:
        if places is not None:  # a package
            spec = importlib.machinery.PathFinder.find_spec("__main__", places)
        if spec is not None and spec.origin:
            return pathlib.Path(spec.origin)
    raise ConfigError(f"there is no module {name} to run in {os.getcwd()}, nor an installed one: give its full name.")


def _imported(text: str) -> set[str]:
    """Returns the names of modules that a text may import, without the dots of relative ones."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return set()
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            package = f"{node.module}." if node.module else ""
            found |= {package[:-1], *(package + alias.name for alias in node.names)} - {""}
    return found


def defined_flags(texts: Sequence[str]) -> dict[str, str]:
    """Returns the flags of a script that describe its task, each with the value that it takes.

    These are the classic flags that the texts name in quotes, `task_id`, and flags of any name that the script gives to
    its server and its cluster: `Server(cluster, "worker", FLAGS.number)` makes `number` a task index.

    Args:
      texts: of the script and its modules.

    Returns:
      The name of each flag and one of `job_name`, `task_index` and `JOB_hosts`.
    """
    found = {
        name: name
        for name in CLASSIC_FLAGS
        if any(re.search(rf"""["'](?:--)?{name}["']""", text) is not None for text in texts)
    }
    found |= {name: meaning for name, meaning in _OTHER_NAMES.items() if _is_defined(name, texts)}
    for text in texts:
        for name, meaning in _uses(text).items():
            if name not in found and _is_defined(name, texts):
                found[name] = meaning
    return found


def _is_defined(name: str, texts: Sequence[str]) -> bool:
    return any(re.search(_DEFINES % re.escape(name), text) is not None for text in texts)


def _uses(text: str) -> dict[str, str]:
    """Returns the attributes that a text gives to its server and cluster, as of FLAGS, with their meaning."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return {}
    assigned: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Call):
            for meaning, value in _meanings(node):
                names = _attributes(value, assigned)
                if len(names) == 1:
                    found.setdefault(names.pop(), meaning)
    return found


def _meanings(call: ast.Call) -> list[tuple[str, ast.expr]]:
    """Returns the arguments of a call that makes a server or a cluster, with their meaning."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function == "Server":
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        given = dict(zip((_JOB_NAME, _TASK_INDEX), call.args[1:], strict=False)) | named
        return [(name, given[name]) for name in (_JOB_NAME, _TASK_INDEX) if name in given]
    if function == "ClusterSpec" and call.args and isinstance(call.args[0], ast.Dict):
        pairs = zip(call.args[0].keys, call.args[0].values, strict=True)
        return [(f"{ast.literal_eval(key)}_hosts", value) for key, value in pairs if isinstance(key, ast.Constant)]
    return []


def _attributes(value: ast.expr, assigned: Mapping[str, list[ast.expr]], depth: int = 0) -> set[str]:
    """Returns the attributes of names in an expression, such as `x` of `FLAGS.x.split(",")`, also by assignments."""
    called = {id(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)}
    found = set()
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            found |= set() if id(node) in called else {node.attr}
        elif isinstance(node, ast.Name) and depth < _DEPTH and len(assigned.get(node.id, ())) == 1:
            found |= _attributes(assigned[node.id][0], assigned, depth + 1)
    return found


def task_flags(
    defined: Mapping[str, str], given: Sequence[str], cluster: Mapping[str, Sequence[str]], job_name: str, index: int
) -> list[str]:
    """Returns the flags of a task.

    Args:
      defined: the flags that the script defines, with their meanings, as of `defined_flags`.
      given: the user's arguments; a flag that stands there is not set again.
      cluster: the addresses of each job.
      job_name: of the task.
      index: of the task.
    """
    values = {_JOB_NAME: job_name, _TASK_INDEX: str(index), "ps_hosts": "", "worker_hosts": ""}
    values |= {f"{job}_hosts": ",".join(addresses) for job, addresses in cluster.items()}
    present = {argument.lstrip("-").partition("=")[0] for argument in given if argument.startswith("-")}
    return [
        f"--{name}={values[meaning]}" for name, meaning in defined.items() if name not in present and meaning in values
    ]


def tf_config(cluster: Mapping[str, Sequence[str]], job_name: str, index: int) -> str:
    """Returns the value of `TF_CONFIG` for a task; an evaluator is not a member of the cluster."""
    hosts = {name: list(addresses) for name, addresses in cluster.items()}
    return json.dumps({"cluster": hosts, "task": {"type": job_name, "index": index}})
