"""A script run in this process, or in a child process that dies with the launcher.

    run_script("train.py", ["--steps=100"], compat=True)        # its exit code

The script is `__main__`, as with `python train.py`.
"""

from __future__ import annotations

import atexit
import os
import random
import runpy
import sys
import threading
import traceback
from collections.abc import Sequence

from ps_train.base.console import ERROR_BEGINS
from ps_train.base.deprecations import limit_deprecations
from ps_train.base.errors import ConfigError, ModelError, headline, ps_train_error
from ps_train.base.hidden_modules import watch
from ps_train.commands.launch.child_process import die_with_launcher
from ps_train.compat.scripts import python2, tensorflow1
from ps_train.compat.scripts.program_end import program_has_ended
from ps_train.compat.scripts.program_kind import kind_of
from ps_train.compat.scripts.script_flags import script_texts
from ps_train.config.error_line import error_line
from ps_train.config.verbs import VERBS


def run_script(script: str, arguments: Sequence[str], compat: bool, is_module: bool = False) -> int:
    """Runs a script as `__main__`; returns its exit code.  An exception is shown as Python shows it.

    Args:
      script: its path, or the name of a module.
      arguments: become `sys.argv[1:]`.
      compat: gives it the facade of TensorFlow 1's modules.
      is_module: runs a module of the working directory or of an installed package, as `python -m` does.
    """
    has_launcher = die_with_launcher()
    limit_deprecations(is_first=True)
    sys.argv = [script, *arguments]
    folder = os.getcwd() if is_module else os.path.dirname(os.path.abspath(script))
    sys.path[0:1] = [folder]
    watch(folder)
    try:
        _give_names(script, compat, is_module)
        if is_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except BaseException as error:
        code = _shown(error, folder, has_launcher, compat)
        ended = program_has_ended(error if code else None)
        return code or ended
    return program_has_ended(None)


def _shown(error: BaseException, folder: str, has_launcher: bool, compat: bool) -> int:
    """Shows the error that has ended a script; returns the exit code."""
    if isinstance(error, SystemExit):
        return _exit_code(error, has_launcher)
    own = ps_train_error(error)
    if isinstance(own, ConfigError | ModelError):  # such as a public address: its text says all
        print(error_line(own, VERBS["run"].page, f"{_place(error, folder)}{own}"), file=sys.stderr)
        return own.exit_code
    sys.excepthook(type(error), error, error.__traceback__)
    advice = python2.advice(error) or ("" if compat else tensorflow1.advice(error))
    if has_launcher or advice:  # a launcher tells the cause; a thread may print after this
        print(error_line(error, VERBS["run"].page, advice or headline(error)), file=sys.stderr)
    return 1


def _give_names(script: str, compat: bool, is_module: bool) -> None:
    """Gives the program the names that it was written for.

    Raises:
      ConfigError: it needs eager execution, and `compat` disables that.
    """
    kind = kind_of(script_texts(script, is_module))
    if compat:
        kind.refuse_graphs(script)
        from ps_train.compat.tf1 import facade

        facade.install()
    elif kind.trains_by_fit:
        from ps_train.compat.distribute import names

        names.install()


def _place(error: BaseException, folder: str) -> str:
    """Returns the line of the program at which an error was raised, as `train.py:12: `; "" for none."""
    frames = [(os.path.abspath(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [(path, line) for path, line in frames if path.startswith(os.path.join(folder, ""))]
    return f"{os.path.relpath(own[-1][0], folder)}:{own[-1][1]}: " if own else ""


def run_forked_script(script: str, arguments: Sequence[str], compat: bool, is_module: bool) -> int:
    """Runs a script in a fork of the launcher, with the end of a process of its own; returns its exit code."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # or all tasks would draw the same batches
    code = run_script(script, arguments, compat, is_module)
    threading._shutdown()  # type: ignore[attr-defined]  # private to typeshed alone
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _exit_code(error: SystemExit, has_launcher: bool) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(f"{ERROR_BEGINS if has_launcher else ''}{error.code}", file=sys.stderr)
    return 1
