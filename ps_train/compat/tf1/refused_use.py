"""Classes and functions that a program may import and name, and that say what to write when they are used.

    CrossShardOptimizer = refused_class("tf.contrib.tpu.CrossShardOptimizer", "leave it out", __name__)
    CrossShardOptimizer(optimizer)      # NotImplementedError

A program that uses TPUs or strategies only if a flag says so runs without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def refused_class(name: str, advice: str, home: str) -> type:
    """Returns a class whose instances cannot be made.

    Args:
      name: as a program writes it.
      advice: what to write instead.
      home: the module of ps_train that has it, where pickle looks for it.
    """

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        _refuse(name, advice)

    doc = f"A stand-in of {name}, which cannot be used: {advice}."
    return type(name.rpartition(".")[2], (), {"__init__": init, "__doc__": doc, "__module__": home})


def refused_function(name: str, advice: str, home: str) -> Callable[..., Any]:
    """Returns a function that cannot be called; the arguments are those of `refused_class`."""

    def function(*args: Any, **kwargs: Any) -> Any:
        _refuse(name, advice)

    function.__module__ = home
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Raises NotImplementedError: {name} cannot be used, {advice}."
    return function


def refused(names: str, module: str, advice: str, home: str) -> dict[str, Any]:
    """Returns classes and functions that cannot be used, by their names.

    Args:
      names: separated by spaces; those that begin with a capital letter are classes.
      module: that has them, `tf.contrib.tpu`.
      advice: what to write instead.
      home: the module of ps_train that has them.
    """
    return {
        name: (refused_class if name[0].isupper() else refused_function)(f"{module}.{name}", advice, home)
        for name in names.split()
    }


def _refuse(name: str, advice: str) -> NoReturn:
    raise NotImplementedError(f"{name} is not supported: {advice}.")
