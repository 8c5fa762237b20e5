"""`python -m tests.kills kafka --seeds=1-20`: the kill tests of the data, one seed after the other; CONTRIBUTING.md."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.pairwise.__main__ import numbers_of
from tests.trials.kills.seeds import VARIABLE

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


def passes(case: str, log: pathlib.Path) -> bool:
    """Runs a case, whose output goes to a file."""
    with log.open("w") as file:
        return subprocess.run([*_PYTEST, case], stdout=file, stderr=subprocess.STDOUT).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("--seeds", default="1-20", help="any, as in 3,7,20-29 (%(default)s)")
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("/tmp/ps_train_kills"), help="(%(default)s)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    try:
        seeds = numbers_of(given.seeds)
    except ValueError:
        parser.error(f"--seeds={given.seeds} is not a list of whole numbers, such as 3,7,20-29.")
    cases = cases_of(TESTS[given.test], seeds)
    given.logs.mkdir(parents=True, exist_ok=True)
    right = 0
    for seed in seeds:
        log, began = given.logs / f"{given.test}-{seed}.log", time.monotonic()
        is_right = passes(cases[seed], log)
        right += is_right
        verdict = "exact" if is_right else f"WRONG: {log}"
        print(f"{given.test} {seed:>3} {time.monotonic() - began:5.0f}s {verdict}", flush=True)
    print(f"{right} of {len(seeds)} were exact.")
    return int(right < len(seeds))


if __name__ == "__main__":
    sys.exit(main())
