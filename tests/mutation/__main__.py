"""Runs the mutations: python -m tests.mutation [--list] [--only NAME] [--jobs N] [--unchecked] [--write]

Each mutation is applied to a temporary copy of the project, and its tests are run there.  A mutation that no test
notices survives.  The score is the share of mutations that are killed.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import sys

from tests.mutation import report
from tests.mutation.catalogue import MUTATIONS
from tests.mutation.mutation import Mutation, StaleError
from tests.mutation.running import BROKEN, SURVIVED, Copies, Verdict

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT = ROOT / "tests" / "mutation" / "RESULT.md"
NEEDED_SCORE = 0.95


def chosen(words: list[str]) -> list[Mutation]:
    """Returns the mutations that have one of the words in their name or file; all, where there are no words."""
    for word in words:
        if not any(word in mutation.name or word in mutation.file for mutation in MUTATIONS):
            sys.exit(f"--only={word}: no mutation has this in its name or file; --list shows all")
    return [one for one in MUTATIONS if not words or any(word in one.name or word in one.file for word in words)]


def check_all_fit(mutations: list[Mutation]) -> None:
    """Ends the program where a mutation no longer fits the code."""
    for mutation in mutations:
        try:
            mutation.applied_to((ROOT / mutation.file).read_text())
        except StaleError as error:
            sys.exit(str(error))


def check_tests_pass(copies: Copies, mutations: list[Mutation]) -> None:
    """Ends the program where a test fails without any mutation: it would kill everything."""
    tests = dict.fromkeys(test for mutation in mutations for test in mutation.tests)
    for test, verdict in copies.passes(tests):
        if verdict.outcome != SURVIVED:
            sys.exit(f"{verdict.output}\n{test} does not pass without a mutation")


def judged(copies: Copies, mutations: list[Mutation]) -> list[tuple[Mutation, Verdict]]:
    """Returns the verdict of each in the order of the list, and prints it as soon as it is there."""
    found = {}
    for mutation, verdict in copies.judge(mutations):
        print(f"{verdict.outcome:9} {verdict.secs:4.0f}s  {mutation.file}: {mutation.name}", flush=True)
        if verdict.outcome == BROKEN:
            print(verdict.output, flush=True)
        found[mutation] = verdict
    return [(mutation, found[mutation]) for mutation in mutations]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--list", action="store_true", help="shows the mutations and runs nothing")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="those with this in name or file; repeatable"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many run at the same time (2)")
    parser.add_argument("--unchecked", action="store_true", help="does not run the tests without a mutation first")
    parser.add_argument("--write", action="store_true", help="writes these outcomes into tests/mutation/RESULT.md")
    arguments = parser.parse_args()
    mutations = chosen(arguments.only)
    if arguments.list:
        print("\n".join(f"{mutation.file}: {mutation.name}" for mutation in mutations))
        return 0
    check_all_fit(mutations)
    with Copies(ROOT, arguments.jobs) as copies:
        if not arguments.unchecked:
            check_tests_pass(copies, mutations)
        verdicts = judged(copies, mutations)
    outcomes = report.outcomes_of(verdicts, str(datetime.date.today()))
    print(report.summary(mutations, outcomes))
    if arguments.write:
        before = report.outcomes_in(RESULT.read_text()) if RESULT.exists() else {}
        RESULT.write_text(report.text(MUTATIONS, before | outcomes))
    return 0 if report.score_of(mutations, outcomes) >= NEEDED_SCORE else 1


if __name__ == "__main__":
    sys.exit(main())
