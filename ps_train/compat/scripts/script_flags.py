"""Each task's configuration for a script: `TF_CONFIG`, and the classic flags where the script defines them.

    texts = script_texts("train.py")
    task_flags(defined_flags(texts), cluster, "worker", 1)
    # ["--job_name=worker", "--task_index=1", "--ps_hosts=127.0.0.1:4001", "--worker_hosts=..."]

Standard library only, since the launcher uses it.
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
from collections.abc import Mapping, Sequence

from ps_train.base.errors import ConfigError

CLASSIC_FLAGS = ("job_name", "task_index", "ps_hosts", "worker_hosts")


def script_texts(script: str) -> list[str]:
    """Returns the text of a script, and of the modules beside it that it imports.

    Raises:
      ConfigError: the script cannot be read.
    """
    path = pathlib.Path(script)
    try:
        texts, todo, seen = [], [path], {path}
        while todo:
            texts.append(todo.pop().read_text(errors="replace"))
            for name in _imported(texts[-1]):
                module = path.parent / f"{name.replace('.', '/')}.py"
                if module not in seen and module.is_file():
                    seen.add(module)
                    todo.append(module)
        return texts
    except OSError as error:
        raise ConfigError(f"the script {script} cannot be read ({error.strerror}): give the path of a file.") from None


def _imported(text: str) -> set[str]:
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return set()
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return found | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


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
