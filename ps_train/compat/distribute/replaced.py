"""Attributes that a program finds replaced, and that can be given back.

    replaced = Replaced()
    replaced.attribute(keras.Model, "fit_generator", fit_generator)
    replaced.keras_module("optimizers.legacy", {"Adam": keras.optimizers.Adam}, instead)
    replaced.give_back()

Keras's public modules exist three times: `keras.layers`, `tf.keras.layers`, and `tensorflow.keras.layers` of an import
statement.  A name is given to all of them.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

KERAS = ("keras", "keras._tf_keras.keras", "tensorflow.keras")
"""The copies of Keras's public module."""


class Replaced:
    """A list of replaced attributes."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute of a class or a module."""
        had, before = name in vars(owner), vars(owner).get(name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before) if had else delattr(owner, name))

    def keras_name(self, path: str, value: Any) -> None:
        """Sets a name of Keras in every copy of its module.

        Args:
          path: the name without the package, `losses.Reduction`.
          value: its value.
        """
        module, _, name = path.rpartition(".")
        for copy in KERAS:
            self.attribute(importlib.import_module(f"{copy}.{module}" if module else copy), name, value)

    def keras_module(self, path: str, values: Mapping[str, Any], refuse: Callable[[str], str]) -> None:
        """Makes a module of Keras that an attribute and an import statement find.

        Args:
          path: its name without the package, `layers.experimental`; its parent exists.
          values: its names.
          refuse: returns what to write in the place of a name that it does not have.
        """
        module = _OldModule(f"tf.keras.{path}", values, refuse)
        self.keras_name(path, module)
        for copy in KERAS:
            self.imported(f"{copy}.{path}", module)

    def imported(self, name: str, module: types.ModuleType) -> None:
        """Lets an import statement find a module under a name."""
        before = sys.modules.get(name)
        sys.modules[name] = module

        def undo() -> None:
            if before is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = before

        self._undo.append(undo)

    def at_the_end(self, undo: Callable[[], None]) -> None:
        """Calls a function when all is given back."""
        self._undo.append(undo)

    def give_back(self) -> None:
        """Sets all attributes to what they were, the last one first."""
        while self._undo:
            self._undo.pop()()


class _OldModule(types.ModuleType):
    """A module that Keras no longer has."""

    def __init__(self, name: str, values: Mapping[str, Any], refuse: Callable[[str], str]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # so that it may have modules
        self.__dict__.update(values)
        self._refuse = refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self.__name__}.{name}"
        raise AttributeError(f"{whole} is not in Keras 3, and ps_train has no substitute: {self._refuse(whole)}.")
