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
from collections.abc import Sequence

from ps_train.base.console import ERROR_BEGINS
from ps_train.base.deprecations import limit_deprecations
from ps_train.base.errors import ConfigError, headline
from ps_train.base.hidden_modules import watch
from ps_train.commands.launch.child_process import die_with_launcher
from ps_train.compat.scripts.python2 import advice
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
        if compat:
            from ps_train.compat.tf1 import facade

            facade.install()
        if is_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        return _exit_code(error, has_launcher)
    except ConfigError as error:  # such as a public address: its text says all, and a restart does not help
        print(error_line(error, VERBS["run"].page), file=sys.stderr)
        return error.exit_code
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        of_python_2 = advice(error)
        if has_launcher or of_python_2:  # a launcher tells the cause; a thread may print after this
            print(error_line(error, VERBS["run"].page, of_python_2 or headline(error)), file=sys.stderr)
        return 1
    return 0


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
