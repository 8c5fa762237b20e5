"""Dated results: a record as JSON, its report as markdown, its plot as SVG, in benchmarks/results/ or elsewhere."""

from __future__ import annotations

import datetime
import json
import pathlib
from typing import Any

DIRECTORY = pathlib.Path(__file__).parent / "results"


def today() -> str:
    return datetime.date.today().isoformat()


def store(kind: str, record: dict[str, Any], text: str, plot: str, directory: str) -> pathlib.Path:
    """Writes `<date>-<kind>.json`, `.md` and `.svg`; returns the first."""
    folder = pathlib.Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{record['date']}-{kind}"
    if plot:
        (folder / f"{stem}.svg").write_text(plot)
        text += f"\n![{kind}]({stem}.svg)\n"
    (folder / f"{stem}.md").write_text(text)
    path = folder / f"{stem}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path
