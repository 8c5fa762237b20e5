"""`python -m tests.trials pairwise SEED`: jobs with all pairs of flags, against one process of numpy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tests.trials.pairwise.factors import Row, design
from tests.trials.running import Verdicts, numbers_of, own_processes, side_by_side


def judge(row: Row) -> str:
    """Runs a row; returns what is wrong, "" for nothing."""
    from tests.support.saved.checkpoints import read_values  # they import TensorFlow
    from tests.trials.pairwise.job import WrongEndError, run_row
    from tests.trials.pairwise.verdict import faults

    with own_processes("pair") as processes:
        try:
            run = run_row(row, processes)
            return "; ".join(faults(row, run, read_values(run.checkpoint)))
        except WrongEndError as error:
            return str(error)


def _has(row: Row, words: Sequence[str]) -> bool:
    """Returns whether a row has one of some words: the names of factors that are not at their default, or levels."""
    own = [word for text in row.text().split() for word in (text, text.partition("=")[0])]
    return any(word in own for word in words)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials pairwise", description=__doc__)
    parser.add_argument("seed", type=int, help="of the design")
    parser.add_argument("--rows", help="only these rows, as in 3,7,20-29")
    parser.add_argument(
        "--having", help="of these only rows that have one of such words, as in local_steps,event=resume"
    )
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time (%(default)s)")
    parser.add_argument("--list", action="store_true", help="only shows the rows")
    given = parser.parse_args(arguments)
    rows = design(given.seed)
    chosen = numbers_of(given.rows) if given.rows else list(range(len(rows)))
    if unknown := [number for number in chosen if number >= len(rows)]:
        parser.error(
            f"--rows={given.rows} has {unknown[0]}: the design of seed {given.seed} has rows 0-{len(rows) - 1}."
        )
    if given.having:
        chosen = [number for number in chosen if _has(rows[number], given.having.split(","))]
    if given.list:
        print("\n".join(f"{number:>3} {rows[number].text()}" for number in chosen))
        return 0
    verdicts = Verdicts(f"rows of seed {given.seed}")
    side_by_side(
        lambda number: verdicts.judge(str(number), lambda: judge(rows[number]), rows[number].text()), chosen, given.jobs
    )
    return verdicts.end()
