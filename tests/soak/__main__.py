"""Runs a long training and measures its processes: python -m tests.soak [--calls=300000] [--update=async] [--write]

Each `session.run` call leaves something behind: the first 100,000 in TensorFlow's memory of request ids, the others
only where something leaks.  The command says for each process whether its memory stays flat after the warm-up.
Further flags go to the job: python -m tests.soak --sharding=dynamic

Exit code 1: the job did something wrong, or a process is not flat.  With too few calls flatness is not judged.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import signal
import sys
import tempfile

from tests.soak import report
from tests.soak.job import Outcome, Plan, errors_of, soak
from tests.soak.verdict import MIN_CALLS, MIN_SAMPLES, WARMUP_CALLS, judge

RESULT = pathlib.Path(__file__).with_name("RESULT.md")


def verdicts_of(plan: Plan, outcome: Outcome, warmup: int) -> report.Verdicts:
    """Returns a verdict for each process: None for all where there were too few calls."""
    if plan.calls < warmup + MIN_CALLS:
        return dict.fromkeys(outcome.series)
    return {name: judge(samples, warmup) for name, samples in outcome.series.items()}


def all_errors(plan: Plan, outcome: Outcome, verdicts: report.Verdicts, warmup: int) -> list[str]:
    """Returns one line for each reason for exit code 1."""
    errors = errors_of(plan, outcome)
    if plan.calls < warmup + MIN_CALLS or errors:
        return errors
    unjudged = [name for name, judged in verdicts.items() if judged is None]
    errors += [f"{name} has fewer than {MIN_SAMPLES} samples after the warm-up" for name in unjudged]
    return errors + [
        f"{name} is not flat: {', '.join(judged.exceeded)}"
        for name, judged in verdicts.items()
        if judged is not None and judged.exceeded
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=300_000, help="calls that each worker makes (%(default)s)")
    parser.add_argument("--warmup", type=int, default=WARMUP_CALLS, help="calls that are not judged (%(default)s)")
    parser.add_argument("--update", default="async", choices=["async", "bounded", "sync"])
    parser.add_argument("--num_ps", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--num_workers", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--sample_secs", type=float, default=5.0, help="between two samples (%(default)s)")
    parser.add_argument("--write", action="store_true", help="writes tests/soak/RESULT.md, if flatness is judged")
    given, flags = parser.parse_known_args()
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))  # ends the processes of the job, too
    plan = Plan(given.calls, given.update, given.num_ps, given.num_workers, given.sample_secs, tuple(flags))
    with tempfile.TemporaryDirectory(prefix="ps_train_soak_") as directory:
        outcome = soak(plan, pathlib.Path(directory), show=lambda line: print(line, flush=True))
    verdicts = verdicts_of(plan, outcome, given.warmup)
    errors = all_errors(plan, outcome, verdicts, given.warmup)
    print(f"{report.summary(plan, outcome)}\n{report.table(verdicts, given.warmup)}")
    if given.write and None not in verdicts.values():
        day, command = str(datetime.date.today()), " ".join(["python -m tests.soak", *sys.argv[1:]])
        RESULT.write_text(report.text(plan, outcome, verdicts, given.warmup, day, command))
    for error in errors:
        print(f"error: {error}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
