"""Markdown tables.

markdown(["contender", "examples/s"], [["ours", "123"]])
"""

from __future__ import annotations

from collections.abc import Sequence


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned, so that the text is a table even where nobody renders it; all but the first are numbers."""
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row has {len(row)} cells under {len(head)} heads: {row}")
    cells = [list(head), *map(list, rows)]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(head))]
    rule = ["-" * width if column == 0 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join(_line(row, widths) for row in [cells[0], rule, *cells[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |"
