"""The end of a process where a program blocks for ever: in a ps, and in `Server.join()`.

    end_process_after(wait_for_end)         # with 0, or with the code of an error
    end_process_with(serve)                 # with the code that it returns

Such a program has no code for the time after, or code that is meant for a worker.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from ps_train.base.errors import EXIT_DONE, PsTrainError
from ps_train.config.error_line import error_line


def end_process_after(wait: Callable[[], object]) -> NoReturn:
    """Calls a function and raises SystemExit, so exit handlers run; a program that goes on catches it.

    Args:
      wait: returns when the job is over.  An error of ps_train is printed as one line, and its exit code is that of
        the process; another exception passes.
    """

    def work() -> int:
        wait()
        return EXIT_DONE

    end_process_with(work)


def end_process_with(work: Callable[[], int]) -> NoReturn:
    """Does the same with a function that returns the exit code."""
    try:
        code = work()
    except PsTrainError as error:
        print(error_line(error), file=sys.stderr, flush=True)
        raise SystemExit(error.exit_code) from error
    raise SystemExit(code)
