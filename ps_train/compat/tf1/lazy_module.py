"""A module whose names are found as they are used.  It is a module like others to Python.

    class Numbers(LazyModule):
        def find(self, name): return int(name.removeprefix("n"))
        def listed(self): return ["n1", "n2"]

    vars(Numbers("numbers", {}))    # {"n1": 1, "n2": 2, ...}

`dir` and `vars` show every name, `import *` takes those without an underscore, and pickle and copy take the module by
its name, as TensorFlow 1's own modules do.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class NameSource(NamedTuple):
    """A place of further names of a module.

    Attributes:
      find: returns the value of a name; AttributeError: there is none.
      listed: returns the names.
    """

    find: Callable[[str], Any]
    listed: Callable[[], Iterable[str]]


_DICT: Any = vars(types.ModuleType)["__dict__"]


class LazyModule(types.ModuleType):
    """A module whose further names are found by `find`.

    Args:
      name: of the module.
      values: the names that it has from the beginning.
      doc: its description.
      like: the module that stands for it, which has its file; None: there is none.
    """

    __slots__ = ("_is_full",)  # not in the dictionary, which is the program's

    def __init__(
        self, name: str, values: Mapping[str, Any], doc: str | None = None, like: types.ModuleType | None = None
    ) -> None:
        super().__init__(name, doc)
        self._is_full = False
        file = None if like is None else vars(like).get("__file__")  # no attribute, which imports a lazy module
        spec = importlib.machinery.ModuleSpec(name, None, origin=file or "ps_train", is_package=True)
        if file is not None:
            self.__file__ = file
            spec.has_location = True
        self.__path__: list[str] = []
        self.__spec__, self.__package__ = spec, name
        own_names(self).update(values)

    def find(self, name: str) -> Any:
        """Returns the value of a name; AttributeError: there is none."""
        raise AttributeError(name)

    def listed(self) -> Iterable[str]:
        """Returns the names that `find` has a value for."""
        return ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return self.find(name)

    def __dir__(self) -> list[str]:
        return sorted({*own_names(self), *_visible(self.listed())})

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # of a module, it can only be read too
        names = own_names(self)
        if not self._is_full:
            self._is_full = True  # before: a value may ask for the dictionary
            for name in [name for name in _visible(self.listed()) if name not in names]:
                with contextlib.suppress(AttributeError, ImportError):  # such as of a package that is not installed
                    names[name] = getattr(self, name)
        return names

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def own_names(module: types.ModuleType) -> dict[str, Any]:
    """Returns the names that a module has at this time, with their values."""
    names: dict[str, Any] = _DICT.__get__(module)
    return names


def _visible(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("__")]
