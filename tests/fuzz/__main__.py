"""`python -m tests.fuzz`: 10,000 wrong inputs for each parser, and 10,000 damaged checkpoints; CONTRIBUTING.md."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.fuzz import checkpoints
from tests.fuzz.parsers import PARSERS
from tests.fuzz.running import run_cases


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="inputs of each parser (%(default)s)")
    parser.add_argument("--only", default="", help="only parsers with one of these words in their names: a,b")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the inputs (random)")
    given = parser.parse_args()
    failed = []
    print(f"seed {given.seed}", flush=True)
    for name in [
        name for name in [*PARSERS, *checkpoints.KINDS] if any(word in name for word in given.only.split(","))
    ]:
        began, problem = time.monotonic(), ""
        try:
            if name in PARSERS:
                count = run_cases(PARSERS[name], given.cases, given.seed)
            else:
                count, found = checkpoints.run_cases(name, given.cases, given.seed)
                problem = "; ".join(found[:3])
        except Exception as error:
            notes = " ".join(getattr(error, "__notes__", ()))
            count, problem = 0, f"{type(error).__name__}: {error} {notes}"
        failed += [name] if problem else []
        print(f"{name:<22} {count:>7} cases {time.monotonic() - began:7.1f}s  {problem or 'ok'}", flush=True)
    print(f"{len(failed)} failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
