"""`python -m tests.trials storms`: storms, each of another seed."""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import os
import pathlib
import platform
import statistics
import tempfile
import time
from importlib.metadata import version

from tests.trials.running import Verdicts, numbers_of, own_processes, side_by_side, text_of
from tests.trials.storms import record
from tests.trials.storms.storm import VERSION, Storm
from tests.trials.storms.weather import weather

Result = tuple[int, float, str]
"""The seed, the seconds that the storm took, and what was wrong ("" where nothing was)."""

_SEARCHED = 10_000
"""Seeds among which --having looks."""


def run(seed: int, logs: pathlib.Path) -> str:
    """Makes a storm.

    Args:
      seed: its seed.
      logs: gets a directory with the output of all tasks, if it is not right.
    """
    with own_processes("storm") as processes:
        weather(Storm.of(seed), processes, logs / f"seed-{seed}")
    return ""


def part_of(results: list[Result], jobs: int) -> record.Part:
    secs = [secs for _, secs, _ in results]
    wrong = [f"seed {seed}: {told[:200]}" for seed, _, told in sorted(results) if told]
    return record.Part(
        day=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        generator=VERSION,
        seeds=text_of([seed for seed, _, _ in results]),
        jobs=jobs,
        right=len(results) - len(wrong),
        total=len(results),
        secs=f"{statistics.median(secs):.0f}, {max(secs):.0f}",
        load=f"{os.getloadavg()[2]:.0f}",
        versions=f"Python {platform.python_version()}, TensorFlow {version('tensorflow')}, {os.cpu_count()} cores",
        wrong="; ".join(wrong),
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials storms", description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="storms (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first storm; each next one has the next")
    parser.add_argument("--seeds", type=numbers_of, help="instead: these seeds, as in 4,17,20-29")
    parser.add_argument("--having", help="only storms that have this, as in racks or push_codec=auto; see --list")
    parser.add_argument("--jobs", type=int, default=1, help="storms at a time (%(default)s)")
    parser.add_argument("--write", action="store_true", help=f"adds the result to {record.RESULT.name}")
    parser.add_argument("--part", type=int, default=25, help="storms in a row of it (%(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no storm begins later than this")
    parser.add_argument("--list", action="store_true", help="only shows the storms, and how many have what")
    parser.add_argument("--logs", type=pathlib.Path, help="directory for the output of storms that are not right")
    given = parser.parse_args(arguments)
    seeds = given.seeds or list(range(given.seed, given.seed + given.runs))
    if given.having:
        searched = range(given.seed, given.seed + _SEARCHED)
        having = (seed for seed in searched if given.having in Storm.of(seed).dimensions())
        seeds = list(itertools.islice(having, given.runs))
        if not seeds:
            parser.error(f"none of {_SEARCHED} storms has {given.having!r}: --list shows what they have")
    if given.list:
        print("\n".join(Storm.of(seed).text() for seed in seeds))
        print(
            ", ".join(f"{name}: {count}" for name, count in record.counts([Storm.of(seed) for seed in seeds]).items())
        )
        return 0
    logs = given.logs or pathlib.Path(tempfile.gettempdir(), f"ps_train_storms_{os.getpid()}")
    last = time.monotonic() + 60 * given.minutes
    print(f"the output of wrong storms goes to {logs}", flush=True)
    verdicts, results = Verdicts(f"storms of generator {VERSION}"), list[Result]()

    def make(seed: int) -> Result | None:
        began = time.monotonic()
        if began > last:
            return None
        wrong = verdicts.judge(str(seed), lambda: run(seed, logs), Storm.of(seed).text().partition(": ")[2])
        return seed, time.monotonic() - began, wrong

    def note(result: Result | None) -> None:
        results.extend([result] if result else [])
        if result and given.write and len(results) % given.part == 0:
            record.append(part_of(results[-given.part :], given.jobs))

    side_by_side(make, seeds, given.jobs, note)
    left = len(results) % given.part
    if given.write and left:
        record.append(part_of(results[-left:], given.jobs))
    return verdicts.end()
