"""What the trials share: which runs, each in processes of its own, several at a time, and a verdict on each.

verdicts = Verdicts("rows")
side_by_side(lambda row: verdicts.judge(str(row), lambda: run(row)), numbers_of("3,7,20-29"), jobs=2)
return verdicts.end()
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pathlib
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from tests.support.machine.processes import Processes

T = TypeVar("T")
R = TypeVar("R")

_RUNNING: list[Processes] = []
_MOST_TOLD = 20_000
"""Characters of an error: an input that a parser fails on may be as long as a file."""


def numbers_of(text: str) -> list[int]:
    """Returns the numbers of a list such as 3,7,20-29."""
    parts = [part.partition("-") for part in text.split(",")]
    return [number for first, _, last in parts for number in range(int(first), int(last or first) + 1)]


def text_of(numbers: Sequence[int]) -> str:
    """Returns numbers as such a list, sorted: 3, 7, 20-29."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


class Verdicts:
    """Shows a line for each case, and the sum.

    Args:
      what: the name of the cases, for the sum.

    Attributes:
      total: the number of cases so far.
      wrong: names of the wrong cases.
    """

    def __init__(self, what: str) -> None:
        self.total, self.wrong = 0, list[str]()
        self._what, self._lock, self._began = what, threading.Lock(), time.monotonic()

    def judge(self, name: str, run: Callable[[], str], text: str = "") -> str:
        """Runs a case; returns what is wrong, "" for nothing.

        Args:
          name: as the sum names the case, if it is wrong.
          run: returns what is wrong, or raises an error.
          text: more of the case, for its line.
        """
        began = time.monotonic()
        try:
            wrong = run()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # pytest's failures are no Exceptions
            notes = " ".join(getattr(error, "__notes__", ()))
            frames = traceback.extract_tb(error.__traceback__)
            where = [frame for frame in frames if "site-packages" not in frame.filename][-1]
            told = f"{type(error).__name__}: {error} {notes}".rstrip()[:_MOST_TOLD]
            wrong = f"{told}\n  in {where.filename}, line {where.lineno}"
        with self._lock:
            self.total += 1
            self.wrong += [name] if wrong else []
            line = f"{time.monotonic() - began:6.1f}s {'WRONG' if wrong else 'right'} {name} {text}".rstrip()
            print(f"{line}: {wrong}" if wrong else line, flush=True)
        return wrong

    def end(self) -> int:
        """Shows the sum; returns the exit code."""
        told = f"; wrong: {', '.join(self.wrong)}" if self.wrong else ""
        secs = time.monotonic() - self._began
        print(f"{self.total - len(self.wrong)} of {self.total} {self._what} right, {secs:.0f}s{told}", flush=True)
        return 1 if self.wrong else 0


@contextlib.contextmanager
def own_processes(trial: str) -> Iterator[Processes]:
    """Yields processes in a temporary directory; both end with the body, or with the program."""
    with tempfile.TemporaryDirectory(prefix=f"ps_train_{trial}_", ignore_cleanup_errors=True) as directory:
        processes = Processes(pathlib.Path(directory))
        _RUNNING.append(processes)
        try:
            yield processes
        finally:
            processes.end()
            _RUNNING.remove(processes)


def side_by_side(
    run: Callable[[T], R], cases: Iterable[T], jobs: int, then: Callable[[R], object] = lambda result: None
) -> None:
    """Runs cases in threads, `jobs` at a time; a signal ends their processes and this program.

    Args:
      run: runs a case.
      cases: its arguments.
      jobs: threads.
      then: gets each result, in this thread.
    """
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        for future in concurrent.futures.as_completed([pool.submit(run, case) for case in cases]):
            then(future.result())
    except BaseException as error:  # a signal, or an error of the trial itself
        if not isinstance(error, (KeyboardInterrupt, SystemExit)):
            traceback.print_exc()
        for processes in [*_RUNNING]:
            processes.end()
        os._exit(1)
