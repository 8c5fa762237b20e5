"""`python -m tests.trials fuzz`: 10,000 wrong inputs for each parser, and 10,000 damaged checkpoints."""

from __future__ import annotations

import argparse
import random

from tests.trials.fuzz import checkpoints
from tests.trials.fuzz.parsers import PARSERS
from tests.trials.fuzz.running import run_cases
from tests.trials.running import Verdicts


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="inputs of each parser (%(default)s)")
    parser.add_argument("--only", default="", help="only parsers with one of these words in their names: a,b")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the inputs (random)")
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}", flush=True)
    verdicts = Verdicts("parsers")
    for name in [*PARSERS, *checkpoints.KINDS]:
        if any(word in name for word in given.only.split(",")):
            verdicts.judge(name, lambda name=name: _problems(name, given.cases, given.seed))
    return verdicts.end()


def _problems(name: str, cases: int, seed: int) -> str:
    if name not in PARSERS:
        return "; ".join(checkpoints.run_cases(name, cases, seed)[1][:3])
    run_cases(PARSERS[name], cases, seed)
    return ""
