"""Workers over time as SVG text: one row for each worker, one box for each of its steps.

    svg = timeline({"sync": [[Step(0.0, 0.1), Step(0.1, 0.2)], [Step(0.0, 0.2)]]}, slow=1)

A box is as long as the step took, waiting included.  Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

SHOWN_SECS = 0.6
_LEFT, _WIDTH, _ROW, _GAP = 90, 720, 16, 4
_FAST, _SLOW = ("#1f6f8b", "#8fb8c4"), ("#d1812f", "#e9bd90")
_STYLE = "font-family='sans-serif' font-size='12' fill='#222'"


class Step(NamedTuple):
    """Seconds of one clock."""

    began: float
    ended: float


def timeline(panels: Mapping[str, Sequence[Sequence[Step]]], slow: int) -> str:
    """The same length of time from the middle of each panel's run; neighbouring boxes differ in shade."""
    parts: list[str] = []
    top = 10
    for name, workers in panels.items():
        parts.append(_text(10, top + 14, name, "font-weight='bold'"))
        top += 22
        start = middle_of(workers) - SHOWN_SECS / 2
        for index, steps in enumerate(workers):
            parts.append(_text(_LEFT - 8, top + _ROW - 4, f"worker {index}", "text-anchor='end'"))
            parts += _row(steps, start, top, _SLOW if index == slow else _FAST)
            top += _ROW + _GAP
        top += 10
    parts.append(_text(_LEFT, top + 12, f"{SHOWN_SECS * 1000:.0f} ms of each run; a box is one step, waiting included"))
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{_LEFT + _WIDTH + 10}' height='{top + 24}'>"
    return "\n".join([head, "<rect width='100%' height='100%' fill='white'/>", *parts, "</svg>", ""])


def middle_of(workers: Sequence[Sequence[Step]]) -> float:
    """Between the first moment at which all had begun and the first at which one had ended."""
    return (max(steps[0].began for steps in workers) + min(steps[-1].ended for steps in workers)) / 2


def _row(steps: Sequence[Step], start: float, top: int, shades: tuple[str, str]) -> list[str]:
    boxes = []
    for number, step in enumerate(steps):
        left, right = ((at - start) / SHOWN_SECS for at in step)
        left, right = max(0.0, left), min(1.0, right)
        if left < right:
            x, width = _LEFT + left * _WIDTH, (right - left) * _WIDTH
            boxes.append(
                f"<rect x='{x:.1f}' y='{top}' width='{max(width - 0.5, 0.5):.1f}' height='{_ROW}' "
                f"fill='{shades[number % 2]}'/>"
            )
    return boxes


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {_STYLE} {more}>{escape(text)}</text>"
