"""Runs a long training and measures its processes: python -m tests.trials soak [--calls=300000] [--write]

Two hours in two parts, of which the second resumes from the first one's checkpoint, at the pace of a larger model:
python -m tests.trials soak --paced --num_workers=2 --calls=300000 --parts=2 --write=tests/trials/soak/LONG_RESULT.md

Each `session.run` call leaves something behind: the first 100,000 in TensorFlow's memory of request ids, the others
only where something leaks.  The command says for each process whether its memory stays flat after the warm-up.
Further flags go to the job: python -m tests.trials soak --sharding=dynamic

Exit code 1: the job did something wrong, or a process or its model directory is not flat.  Flatness is not
judged with too few calls.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import tempfile

from tests.trials.soak import report
from tests.trials.soak.job import Outcome, Plan, errors_of, soak
from tests.trials.soak.verdict import MIN_CALLS, MIN_SAMPLES, WARMUP_CALLS, judge, judge_disk

RESULT = pathlib.Path(__file__).with_name("RESULT.md")


def verdicts_of(plan: Plan, outcome: Outcome, warmup: int) -> report.Verdicts:
    """Returns a verdict for each process: None for all where there were too few calls."""
    if plan.calls < warmup + MIN_CALLS:
        return dict.fromkeys(outcome.series)
    return {name: judge(samples, warmup, plan.calls_of(name)) for name, samples in outcome.series.items()}


def all_errors(plan: Plan, outcome: Outcome, verdicts: report.Verdicts, warmup: int) -> list[str]:
    """Returns one line for each reason for exit code 1."""
    errors = errors_of(plan, outcome)
    if plan.calls < warmup + MIN_CALLS or errors:
        return errors
    disk = judge_disk(outcome.disk)
    errors += [f"the model directory is not flat: {', '.join(disk.exceeded)}"] if disk and disk.exceeded else []
    unjudged = [name for name, judged in verdicts.items() if judged is None]
    errors += [f"{name} has fewer than {MIN_SAMPLES} samples after the warm-up" for name in unjudged]
    return errors + [
        f"{name} is not flat: {', '.join(judged.exceeded)}"
        for name, judged in verdicts.items()
        if judged is not None and judged.exceeded
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.trials soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=300_000, help="calls that each worker makes (%(default)s)")
    parser.add_argument("--warmup", type=int, default=WARMUP_CALLS, help="calls that are not judged (%(default)s)")
    parser.add_argument("--update", default="async", choices=["async", "bounded", "sync"])
    parser.add_argument("--num_ps", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--num_workers", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--sample_secs", type=float, default=5.0, help="between two samples (%(default)s)")
    parser.add_argument("--paced", action="store_true", help="a call takes some milliseconds")
    parser.add_argument("--parts", type=int, default=1, help="so many jobs, each resumes from the last (%(default)s)")
    parser.add_argument(
        "--write",
        nargs="?",
        const=RESULT,
        type=pathlib.Path,
        help="writes RESULT.md or this file, if it is judged",
    )
    given, flags = parser.parse_known_args(arguments)
    sizes = (given.calls, given.update, given.num_ps, given.num_workers, given.sample_secs, tuple(flags))
    parts: list[report.Part] = []
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ps_train_soak_") as directory:
        for number in range(given.parts):
            plan = Plan(*sizes, part=number, is_paced=given.paced)
            outcome = soak(plan, pathlib.Path(directory), show=lambda line: print(line, flush=True))
            parts.append(report.Part(plan, outcome, verdicts_of(plan, outcome, given.warmup)))
            errors = all_errors(*parts[-1], given.warmup)
            print(f"{report.summary(plan, outcome)}\n{report.table(parts[-1].verdicts, given.warmup)}", flush=True)
            if given.write and None not in parts[-1].verdicts.values():
                day, command = str(datetime.date.today()), " ".join(["python -m tests.trials soak", *arguments])
                given.write.write_text(report.text(parts, given.warmup, day, command))
            for error in errors:
                print(f"error: {error}", flush=True)
            found += errors
            if errors_of(plan, outcome):  # there may be nothing to resume from
                break
    return 1 if found else 0
