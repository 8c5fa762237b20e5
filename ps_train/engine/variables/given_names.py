"""The names that code gives to its variables, wherever in a graph it is called.

    with given_names() as names:
        optimizer.apply_gradients(pairs)
    names[id(variable)]                     # "beta1_power", where the variable is "cond_1/beta1_power_2"

TensorFlow names a variable after the scopes, branches and loops around the code, and after what the graph has already.
A checkpoint must not: an engine's update is in a condition, and in several of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


@contextlib.contextmanager
def given_names() -> Iterator[dict[int, str]]:
    """Records the names of the variables that are made in the body, without the scopes around it.

    Yields:
      The id of each variable to its name, which several of them may have.
    """
    found: dict[int, str] = {}
    around, variable_scope = v1.get_default_graph().get_name_scope(), v1.get_variable_scope().name

    def create(make: Any, **options: Any) -> Any:
        made = make(**options)
        own = _inside(v1.get_default_graph().get_name_scope(), around)
        name = str(options.get("name") or "Variable").partition(":")[0]
        found[id(made)] = f"{own}/{name}".lstrip("/") if own else _inside(name, variable_scope)
        return made

    with contextlib.ExitStack() as stack:
        with tf.init_scope():  # the graph in which optimizers make their variables, in functions too
            stack.enter_context(tf.variable_creator_scope(create))
        yield found


def _inside(name: str, scope: str) -> str:
    """Returns a name, or scope, without the scope that it begins with."""
    return f"{name}/".removeprefix(f"{scope}/" if scope else "").rstrip("/")
