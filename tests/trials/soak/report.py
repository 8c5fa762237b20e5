"""The result of a soak test as text: a table for the terminal and for RESULT.md."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.trials.soak.job import Outcome, Plan
from tests.trials.soak.verdict import (
    BOUNDS,
    DISK_BOUNDS,
    DISK_WARMUP_SECS,
    KEPT_BYTES,
    MIB,
    MIN_CALLS,
    PER_CALLS,
    Disk,
    Judged,
    Sample,
    judge_disk,
    medians_at,
)

Verdicts = Mapping[str, Judged | None]
_ROWS = 10


class Part(NamedTuple):
    """One job of a soak test."""

    plan: Plan
    outcome: Outcome
    verdicts: Verdicts


def summary(plan: Plan, outcome: Outcome) -> str:
    refused = f"{outcome.refused} call{'s' * (outcome.refused != 1)} refused because of their id and made again"
    return (
        f"exit code {outcome.exit_code}, global_step {outcome.result.get('global_step')} of {plan.max_steps}, "
        f"{refused}, {len(outcome.left)} processes left over, {outcome.secs:.0f}s"
    )


def table(verdicts: Verdicts, warmup: int) -> str:
    """Returns what each process held after the warm-up and at the end, by how much it grew, and whether it is flat."""
    if None in verdicts.values():
        return f"flatness is not judged: that takes {warmup + MIN_CALLS} calls, of which {warmup} are the warm-up"
    lines = [
        f"| process | RSS, MiB | growth, MiB per {PER_CALLS:,} calls of it: RSS | anonymous | Pss | "
        "kept by TensorFlow | the rest: RSS | anonymous | open files | threads | flat |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(name, judged) for name, judged in verdicts.items() if judged is not None]
    return "\n".join([*lines, "", bounds()])


def course(plan: Plan, outcome: Outcome) -> str:
    """Returns RSS and, in brackets, anonymous memory over the calls."""
    names = list(outcome.series)
    lines = [f"| calls | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for part in range(1, _ROWS + 1):
        calls = plan.calls * part // _ROWS
        cells = [_memory_at(outcome.series[name], calls) for name in names]
        lines.append(f"| {calls} | {' | '.join(cells)} |")
    return "\n".join(lines)


def bounds() -> str:
    return (
        f"Flat: per {PER_CALLS:,} calls, RSS and anonymous memory each grow by less than {BOUNDS['rss'] / MIB:g} MiB "
        f"(10 bytes a call) beside what TensorFlow keeps, open files and threads by less than {BOUNDS['fds']:g}.\n"
        f"Kept by TensorFlow: {KEPT_BYTES} bytes for each rendezvous that it holds for ever "
        "([0038](../../../docs/decisions/0038-kept-rendezvous.md)), as counted in the process."
    )


def text(parts: Sequence[Part], warmup: int, day: str, command: str) -> str:
    """Returns the whole of RESULT.md."""
    plan = parts[0].plan
    versions = f"Python {platform.python_version()}, TensorFlow {importlib.metadata.version('tensorflow')}"
    cores = len(os.sched_getaffinity(0))
    flat = "flat" if all(is_flat(part.verdicts) for part in parts) else "not flat"
    workers = "1 worker" if plan.workers == 1 else f"{plan.workers} workers"
    calls = f"{plan.calls} calls of each worker{' in each part' * (len(parts) > 1)}"
    head = f"""# Result of the soak test

Written by `{command}`; see [docs/dev/testing.md](../../../docs/dev/testing.md#soak).

{day}, {versions}, Linux {platform.release().split("-")[0]}, {cores} cores.
{plan.num_ps} ps, {workers}, `--update={plan.update}`, {calls}.

**Beside what TensorFlow keeps, the memory of the processes is {flat}.** Growth is measured from call {warmup} on.
"""
    return "\n".join([head, *(_part_text(number, part, warmup) for number, part in enumerate(parts, 1))])


def _part_text(number: int, part: Part, warmup: int) -> str:
    plan, outcome, verdicts = part
    began = f", resumed from step {plan.first_step}" if plan.part else ""
    return f"""## Part {number}{began}
{summary(plan, outcome)}.

{table(verdicts, warmup)}

{disk_table(outcome.disk)}

RSS in MiB over the calls, and anonymous memory in brackets:

{course(plan, outcome)}
"""


def disk_table(samples: Sequence[Disk]) -> str:
    """Returns what the model directory held, and by how much it grew in an hour."""
    judged = judge_disk(samples)
    if judged is None:
        return f"The model directory is not judged: that takes more than {DISK_WARMUP_SECS:g} s."
    rows = [
        f"| {name} | {judged.first[of] / unit:.{digits}f} to {judged.last[of] / unit:.{digits}f} "
        f"| {judged.growth[of] / unit:+.{digits}f} | {'no' if of in judged.exceeded else 'yes'} |"
        for name, of, unit, digits in (
            ("event files, MiB", "events", MIB, 3),
            ("all other files, MiB", "others", MIB, 3),
            ("files", "files", 1, 0),
        )
    ]
    limits = f"{DISK_BOUNDS['events'] / MIB:g} MiB and fewer than {DISK_BOUNDS['files']:g} files"
    flat = f"Flat: less than {limits} more in an hour, from second {DISK_WARMUP_SECS:g} on."
    return "\n".join(["| model directory | size | growth in an hour | flat |", "|---|---|---|---|", *rows, "", flat])


def is_flat(verdicts: Verdicts) -> bool:
    return all(judged is not None and not judged.exceeded for judged in verdicts.values())


def _row(name: str, judged: Judged) -> str:
    flat = f"no: {', '.join(judged.exceeded)}" if judged.exceeded else "yes"
    memory = " | ".join(f"{judged.growth[of] / MIB:+.2f}" for of in ("rss", "anonymous", "pss"))
    kept = f"{KEPT_BYTES * judged.growth['kept'] / MIB:.2f}"
    rest = " | ".join(f"{judged.rest(of) / MIB:+.2f}" for of in ("rss", "anonymous"))
    counts = " | ".join(f"{judged.first[of]:g} to {judged.last[of]:g}" for of in ("fds", "threads"))
    sizes = f"{judged.first['rss'] / MIB:.1f} to {judged.last['rss'] / MIB:.1f}"
    return f"| {name} | {sizes} | {memory} | {kept} | {rest} | {counts} | {flat} |"


def _memory_at(samples: list[Sample], calls: int) -> str:
    rss, anonymous = (medians_at(samples, calls, of) / MIB for of in (_rss, _anonymous))
    return f"{rss:.1f} ({anonymous:.1f})"


def _rss(sample: Sample) -> int:
    return sample.rss


def _anonymous(sample: Sample) -> int:
    return sample.anonymous
