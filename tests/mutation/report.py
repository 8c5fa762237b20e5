"""The results of mutations as text: RESULT.md, which keeps the last outcome of each mutation.

found = {**outcomes_in(old_text), **outcomes_of(verdicts, today)}
new_text = text(MUTATIONS, found)
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable, Mapping, Sequence

from tests.mutation.mutation import Mutation
from tests.mutation.running import NOTICED, Verdict

Outcomes = Mapping[str, tuple[str, str]]
"""Name of a mutation to its outcome and the day of it."""

NOT_RUN = ("not run", "")


def outcomes_of(verdicts: Iterable[tuple[Mutation, Verdict]], day: str) -> dict[str, tuple[str, str]]:
    return {mutation.name: (verdict.outcome, day) for mutation, verdict in verdicts}


def outcomes_in(result: str) -> dict[str, tuple[str, str]]:
    """Returns what a RESULT.md says."""
    rows = [line[2:-2].split(" | ") for line in result.splitlines() if line.startswith("| `")]
    return {name: (outcome, day) for _, name, outcome, day in rows}


def score_of(mutations: Sequence[Mutation], outcomes: Outcomes) -> float:
    """Returns the share of the mutations that were killed."""
    return _killed(mutations, outcomes) / len(mutations)


def summary(mutations: Sequence[Mutation], outcomes: Outcomes) -> str:
    killed, score = _killed(mutations, outcomes), score_of(mutations, outcomes)
    return f"{killed} of {len(mutations)} mutations were killed: {100 * score:.1f} %"


def text(mutations: Sequence[Mutation], outcomes: Outcomes) -> str:
    """Returns the whole of RESULT.md."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("tensorflow", "numpy", "pytest"))
    found = [(mutation, *outcomes.get(mutation.name, NOT_RUN)) for mutation in mutations]
    lines = [
        "# Result of the mutations",
        "",
        "Written by `python -m tests.mutation --write`; see [CONTRIBUTING.md](../../CONTRIBUTING.md#mutations).",
        "",
        f"{max((day for _, _, day in found), default='')}, Python {platform.python_version()}, {versions}.",
        f"**{summary(mutations, outcomes)}.**",
        "",
        "| file | mutation | outcome | date |",
        "|---|---|---|---|",
        *(f"| `{mutation.file}` | {mutation.name} | {outcome} | {day} |" for mutation, outcome, day in found),
    ]
    return "\n".join(lines) + "\n"


def _killed(mutations: Sequence[Mutation], outcomes: Outcomes) -> int:
    return sum(outcomes.get(mutation.name, NOT_RUN)[0] in NOTICED for mutation in mutations)
