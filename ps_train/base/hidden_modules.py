"""Names a user's file that hides a module of Python, or an installed one, from the library that needs it.

    watch()                 # the first thing that the package does
    watch("/home/me")       # the folder of a script, before it runs

A file `queue.py` in the working directory, or beside the script, is found before Python's `queue`.  A library that
imports `queue` then fails far from the cause.  Here such an import raises a ConfigError with the path of the file.  The
user's own imports find the user's files, as ever.

It must not import a module that a file may hide, so it has only what the interpreter itself has loaded.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType, TracebackType
    from typing import Any

_STANDARD = os.path.dirname(os.__file__)
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED = ("site-packages", "dist-packages")
_MACHINERY = "<frozen importlib"
_FORMS = (".py", f"{os.sep}__init__.py")


def watch(folder: str | None = None) -> None:
    """Watches the imports of libraries from now on.

    Args:
      folder: a folder whose files are found before Python's own; None for the one that Python itself puts first.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        if _is_own_command():
            sys.excepthook = _in_one_line
    if folder is None:
        folder = _first_folder()
    if folder and not _is_of_a_library(os.path.join(folder, "module.py")):
        _folders.add(folder)


_folders: set[str] = set()


def _first_folder() -> str:
    """Returns the folder of the script, or else the working directory, as Python puts it first into its path.

    It is "" where the working directory is gone.
    """
    main = sys.modules.get("__main__")
    script = getattr(main, "__file__", None) if getattr(main, "__spec__", None) is None else None  # else it is `-m`
    try:
        return os.path.dirname(os.path.realpath(script)) if script else os.getcwd()
    except OSError:  # it is gone
        return ""


class _Finder:
    """A finder of no module, which looks where an import of a library would lead."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> None:
        """Raises ConfigError for an import of a library that a user's file would answer."""
        if path is not None or name in sys.builtin_module_names or not _is_in_a_folder(name):
            return
        importer = _importer(sys._getframe(1))
        if importer is None:
            return
        spec = _found(name, sys.path)
        folders = {os.path.abspath(folder) for folder in _folders}
        others = [entry for entry in sys.path if os.path.abspath(entry) not in folders]
        meant = _found(name, others)
        if spec is None or meant is None or meant.origin == spec.origin or not spec.origin or not meant.origin:
            return
        is_pythons = _INSTALLED[0] not in meant.origin and meant.origin.startswith(_STANDARD)
        whose = "Python's" if is_pythons else "the installed"
        present, sys.path[:] = list(sys.path), others  # the error's own module must not meet the file
        try:
            from ps_train.base.errors import ConfigError
        finally:
            sys.path[:] = present
        raise ConfigError(
            f"{spec.origin} hides {whose} module {name!r}, which {importer} imports: rename the file, or start "
            "in another folder."
        )


def _is_in_a_folder(name: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name + form)) for folder in _folders for form in _FORMS)


def _found(name: str, entries: list[str]) -> Any:
    """Returns the spec of a module in some folders; None if it is in none of them."""
    return sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, entries)


def _importer(frame: FrameType | None) -> str | None:
    """Returns the name of the library module that has the import statement; None if it is none of a library.

    A module that is imported by its name, as a user's model, is asked for by the user.
    """
    is_import = False
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        is_import = True
        frame = frame.f_back
    if frame is None or not is_import or not _is_of_a_library(frame.f_code.co_filename):
        return None
    name = str(frame.f_globals.get("__name__", ""))
    if name.partition(".")[0] == "importlib":
        return None
    return "ps_train" if name == "__main__" else name


def _is_of_a_library(path: str) -> bool:
    full = os.path.abspath(path)
    if path.startswith("<frozen "):
        return True
    if path.startswith("<"):
        return False
    folders = full.split(os.sep)
    return full.startswith((_OWN + os.sep, _STANDARD + os.sep)) or any(name in folders for name in _INSTALLED)


def _is_own_command() -> bool:
    """Returns True in `python -m ps_train` and `python -m ps_train.models.clicks`."""
    words = sys.orig_argv
    return "-m" in words[:-1] and words[words.index("-m") + 1].partition(".")[0] == "ps_train"


def _in_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ends a command whose modules cannot be imported, with the error in one line."""
    if kind.__name__ != "ConfigError":
        sys.__excepthook__(kind, error, trace)
        return
    errors = sys.modules["ps_train.base.errors"]  # the error is of it
    sys.stderr.write(errors.with_page(f"ps_train: error: {error}", getattr(error, "page", "")) + "\n")
    sys.stderr.flush()
    os._exit(getattr(error, "exit_code", 1))
