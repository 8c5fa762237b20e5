"""The record of storms in tests/trials/storms/RESULT.md: parts of one run add up.

RECORD.append(Part(...))          # writes the row and the totals anew
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from tests.trials.storms.storm import Storm

RESULT = pathlib.Path(__file__).with_name("RESULT.md")

_HEAD = """# Storms on record

Written by `python -m tests.trials storms --write`; see [docs/dev/testing.md](../../../docs/dev/testing.md#storms). A
storm is *right* if the job ended within the deadline, at the step and with the updates and uses of examples that its
mode promises, and no process was left over. Where a task that the job needs never came back, every process must have
ended with an error that names it. Only storms of one version of the generator count together.
"""
_COLUMNS = "date | generator | seeds | at a time | right | seconds: median, longest | load average | versions | wrong"
_TABLE = [f"| {_COLUMNS} |", "|---|---|---|---|---|---|---|---|---|"]
_ROW = re.compile(r"^\| (\S+ \S+) \| (\d+) \| ([\d, -]+) \| (\d+) \| (\d+) of (\d+) \|" + r" (.*) \|" * 4 + "$")


@dataclasses.dataclass(frozen=True)
class Part:
    """A run of some storms in a row.

    Attributes:
      day: date and time of its end.
      generator: the version of the generator.
      seeds: as text.
      jobs: storms at a time.
      wrong: one line for each storm that was not right.
    """

    day: str
    generator: int
    seeds: str
    jobs: int
    right: int
    total: int
    secs: str
    load: str
    versions: str
    wrong: str = ""

    @classmethod
    def parse(cls, line: str) -> Part | None:
        """Returns the part of a row of the table, None for another line."""
        found = _ROW.match(line)
        if not found:
            return None
        day, generator, seeds, jobs, right, total, secs, load, versions, wrong = found.groups()
        return cls(day, int(generator), seeds, int(jobs), int(right), int(total), secs, load, versions, wrong.strip())

    def row(self) -> str:
        one_line = " ".join(self.wrong.split()).replace("|", "/")
        cells = (self.day, self.generator, self.seeds, self.jobs, f"{self.right} of {self.total}", self.secs)
        return "| " + " | ".join(str(cell) for cell in (*cells, self.load, self.versions, one_line)) + " |"


def parts_in(text: str) -> list[Part]:
    """Returns the parts of a record."""
    return [part for part in map(Part.parse, text.splitlines()) if part is not None]


def text_of(parts: Sequence[Part], notes: str = "") -> str:
    """Returns the record: totals by version of the generator, and a row for each part."""
    totals = []
    for generator in sorted({part.generator for part in parts}):
        of_it = [part for part in parts if part.generator == generator]
        right, total = sum(part.right for part in of_it), sum(part.total for part in of_it)
        totals.append(f"**Generator {generator}: {right} of {total} storms were right**, in {len(of_it)} parts.")
    rows = [part.row() for part in parts]
    return "\n".join([_HEAD, "\n".join(totals), "", *_TABLE, *rows]) + "\n" + notes


def append(part: Part, path: pathlib.Path = RESULT) -> None:
    """Adds a part to the record, and keeps what is written below the table."""
    before = path.read_text() if path.exists() else ""
    mark = before.find("\n## ")
    path.write_text(text_of([*parts_in(before), part], before[mark:] if mark >= 0 else ""))


def counts(storms: Sequence[Storm]) -> dict[str, int]:
    """Returns how many of the storms have each dimension."""
    found: dict[str, int] = {}
    for storm in storms:
        for name in storm.dimensions():
            found[name] = found.get(name, 0) + 1
    return found
