"""The result of a run of mutations as text."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections.abc import Sequence

from tests.mutation.mutation import Mutation
from tests.mutation.running import NOTICED, Verdict

Verdicts = Sequence[tuple[Mutation, Verdict]]


def score_of(verdicts: Verdicts) -> float:
    """Returns the share of mutations that were killed."""
    return sum(verdict.outcome in NOTICED for _, verdict in verdicts) / len(verdicts)


def summary(verdicts: Verdicts) -> str:
    killed = sum(verdict.outcome in NOTICED for _, verdict in verdicts)
    return f"{killed} of {len(verdicts)} mutations were killed: {100 * score_of(verdicts):.1f} %"


def text(verdicts: Verdicts) -> str:
    """Returns the whole of RESULT.md."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("tensorflow", "numpy", "pytest"))
    lines = [
        "# Result of the mutations",
        "",
        "Written by `python -m tests.mutation --write`; see [CONTRIBUTING.md](../../CONTRIBUTING.md#mutations).",
        "",
        f"{datetime.date.today()}, Python {platform.python_version()}, {versions}.",
        f"**{summary(verdicts)}.**",
        "",
    ]
    left = [(m, v) for m, v in verdicts if v.outcome not in NOTICED]
    if left:
        lines += ["Not killed:", "", *(f"- `{m.file}`: {m.name} ({v.outcome.lower()})" for m, v in left), ""]
    lines += ["| file | mutation | outcome |", "|---|---|---|"]
    lines += [f"| `{m.file}` | {m.name} | {v.outcome} |" for m, v in verdicts]
    return "\n".join(lines) + "\n"
