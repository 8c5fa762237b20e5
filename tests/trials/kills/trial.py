"""`python -m tests.trials kills kafka --seeds=1-20`: the kill tests of the data, one seed after the other."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

from tests.trials.kills.seeds import VARIABLE
from tests.trials.running import Verdicts, numbers_of

_SOURCES = "tests/process/test_unbounded_sources.py"
TESTS = {
    "kafka": f"{_SOURCES}::test_every_message_is_used_once_although_workers_chief_and_ps_are_killed",
    "cuts": f"{_SOURCES}::test_cuts_by_event_time_are_exact_although_workers_chief_and_ps_are_killed",
    "parquet": "tests/process/test_dynamic_sharding.py::"
    "test_every_row_of_parquet_files_is_used_once_although_workers_are_killed",
}
"""Tests whose first parameter is a seed."""

_PYTEST = [sys.executable, "-m", "pytest", "-n", "0", "-m", ""]


def cases_of(test: str, asked: Sequence[int]) -> dict[int, str]:
    """Returns the name of the test's case of each seed."""
    os.environ[VARIABLE] = ",".join(map(str, asked))
    found = subprocess.run([*_PYTEST, "--collect-only", test], capture_output=True, text=True, check=True)
    names = re.findall(rf"^{re.escape(test)}\[(\d+)[^\n]*\]$", found.stdout, re.MULTILINE)
    lines = re.findall(rf"^{re.escape(test)}\[[^\n]*\]$", found.stdout, re.MULTILINE)
    return dict(zip(map(int, names), lines, strict=True))


def problem_of(case: str, log: pathlib.Path) -> str:
    """Runs a case, whose output goes to a file."""
    with log.open("w") as file:
        code = subprocess.run([*_PYTEST, case], stdout=file, stderr=subprocess.STDOUT).returncode
    return f"see {log}" if code else ""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials kills", description=__doc__)
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("--seeds", default="1-20", help="any, as in 3,7,20-29 (%(default)s)")
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("/tmp/ps_train_kills"), help="(%(default)s)")
    given = parser.parse_args(arguments)
    try:
        seeds = numbers_of(given.seeds)
    except ValueError:
        parser.error(f"--seeds={given.seeds} is not a list of whole numbers, such as 3,7,20-29.")
    cases = cases_of(TESTS[given.test], seeds)
    given.logs.mkdir(parents=True, exist_ok=True)
    verdicts = Verdicts(f"seeds of {given.test}")
    for seed in seeds:
        log = given.logs / f"{given.test}-{seed}.log"
        verdicts.judge(str(seed), lambda seed=seed, log=log: problem_of(cases[seed], log))
    return verdicts.end()
