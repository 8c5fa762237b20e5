"""Each task's configuration for a script: `TF_CONFIG`, and the classic flags where the script defines them.

    texts = script_texts("train.py")
    task_flags(defined_flags(texts), cluster, "worker", 1)
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


def script_texts(script: str, is_module: bool = False) -> list[str]:
    """Returns the text of a script, and of the modules of its program that it imports.

    Those of a script are beside it.  Those of a module are beside it or below the folder of its package.

    Args:
      script: its path, or the name of a module.
      is_module: whether it is the name of a module.

    Raises:
      ConfigError: the script cannot be read, or there is no such module.
    """
    path = _path_of_module(script) if is_module else pathlib.Path(script)
    folders = [path.parent, *([path.parents[script.count(".")]] if is_module else [])]
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


def defined_flags(texts: Sequence[str]) -> set[str]:
    """Returns the classic flags that a script's texts name in quotes, as definitions of flags do."""
    return {
        name
        for name in CLASSIC_FLAGS
        if any(re.search(rf"""["'](?:--)?{name}["']""", text) is not None for text in texts)
    }


def task_flags(
    defined: set[str], given: Sequence[str], cluster: Mapping[str, Sequence[str]], job_name: str, index: int
) -> list[str]:
    """Returns the classic flags of a task.

    Args:
      defined: the flags that the script defines.
      given: the user's arguments; a flag that stands there is not set again.
      cluster: the addresses of each job.
      job_name: of the task.
      index: of the task.
    """
    values = {
        "job_name": job_name,
        "task_index": str(index),
        "ps_hosts": ",".join(cluster.get("ps", [])),
        "worker_hosts": ",".join(cluster.get("worker", [])),
    }
    present = {argument.lstrip("-").partition("=")[0] for argument in given if argument.startswith("-")}
    return [f"--{name}={values[name]}" for name in CLASSIC_FLAGS if name in defined - present]


def tf_config(cluster: Mapping[str, Sequence[str]], job_name: str, index: int) -> str:
    """Returns the value of `TF_CONFIG` for a task; an evaluator is not a member of the cluster."""
    hosts = {name: list(addresses) for name, addresses in cluster.items()}
    return json.dumps({"cluster": hosts, "task": {"type": job_name, "index": index}})
