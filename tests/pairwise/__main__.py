"""`python -m tests.pairwise SEED`: jobs with all pairs of flags, against one process of numpy; CONTRIBUTING.md."""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import signal
import sys
import tempfile
import time

from tests.pairwise.factors import Row, design
from tests.support.machine.processes import Processes

_RUNNING: list[Processes] = []


def judge(row: Row) -> str:
    """Runs a row; returns what is wrong, "" for nothing."""
    from tests.pairwise.job import WrongEndError, run_row  # they import TensorFlow
    from tests.pairwise.verdict import faults, read_values

    with tempfile.TemporaryDirectory(prefix="ps_train_pair_", ignore_cleanup_errors=True) as directory:
        processes = Processes(pathlib.Path(directory))
        _RUNNING.append(processes)
        try:
            run = run_row(row, processes)
            return "; ".join(faults(row, run, read_values(run.checkpoint)))
        except WrongEndError as error:
            return str(error)
        finally:
            processes.end()
            _RUNNING.remove(processes)


def show(number: int, row: Row) -> bool:
    """Runs a row and prints its line; returns whether it is right."""
    began = time.monotonic()
    try:
        wrong = judge(row)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    verdict = f"WRONG: {wrong}" if wrong else "agrees"
    print(f"{number:>3} {time.monotonic() - began:5.1f}s {row.text()}: {verdict}", flush=True)
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pairwise", description=__doc__)
    parser.add_argument("seed", type=int, help="of the design")
    parser.add_argument("--rows", help="only these rows, as in 3,7,20-29")
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time (%(default)s)")
    parser.add_argument("--list", action="store_true", help="only shows the rows")
    given = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    rows = design(given.seed)
    chosen = numbers_of(given.rows) if given.rows else list(range(len(rows)))
    if unknown := [number for number in chosen if number >= len(rows)]:
        parser.error(
            f"--rows={given.rows} has {unknown[0]}: the design of seed {given.seed} has rows 0-{len(rows) - 1}."
        )
    if given.list:
        print("\n".join(f"{number:>3} {rows[number].text()}" for number in chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    began, pool = time.monotonic(), concurrent.futures.ThreadPoolExecutor(given.jobs)
    try:
        right = list(pool.map(lambda number: show(number, rows[number]), chosen))
    except BaseException:  # a signal
        for processes in [*_RUNNING]:
            processes.end()
        os._exit(1)
    wrong = [str(number) for number, is_right in zip(chosen, right, strict=True) if not is_right]
    told = f"; rows that disagree: {','.join(wrong)}" if wrong else ""
    print(f"{sum(right)} of {len(right)} rows of seed {given.seed} agree, {time.monotonic() - began:.0f}s{told}")
    return 1 if wrong else 0


def numbers_of(text: str) -> list[int]:
    """Returns the numbers of a list such as 3,7,20-29."""
    parts = [part.partition("-") for part in text.split(",")]
    return [number for first, _, last in parts for number in range(int(first), int(last or first) + 1)]


if __name__ == "__main__":
    sys.exit(main())
