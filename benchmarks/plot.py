"""Bars with whiskers, and curves, as SVG text.  Standard library only.

svg = bars("examples/s against the classic recipe", {"small": {"ours-async": Spread(4.1, 3.9, 4.4)}})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from benchmarks.summary import Spread, short

_LABEL, _WIDTH, _BAR, _GAP = 190, 460, 16, 6
_STYLE = "font-family='sans-serif' font-size='12' fill='#222'"
_COLOURS = {"ours": "#1f6f8b", "bare": "#8fb8c4"}
_OTHERS = "#b9b9b9"
_CURVES = ("#1f6f8b", "#d1812f", "#5d8c3e", "#8a4f9e", "#777777")


def bars(title: str, groups: Mapping[str, Mapping[str, Spread]]) -> str:
    """One bar for each spread, from zero to its median, with a whisker from lowest to highest."""
    highest = max((one.high for group in groups.values() for one in group.values()), default=1.0)
    parts, top = [_text(10, 18, title, "font-weight='bold'")], 34
    for name, group in groups.items():
        parts.append(_text(10, top + _BAR, name, "font-weight='bold'"))
        top += _BAR + _GAP
        for label, spread in group.items():
            parts += _bar(top, label, spread, _WIDTH / highest)
            top += _BAR + _GAP
        top += _GAP
    return _document(_LABEL + _WIDTH + 80, top + 10, parts)


def _bar(top: float, label: str, spread: Spread, scale: float) -> list[str]:
    colour = _COLOURS.get(label.partition("-")[0].partition(":")[0], _OTHERS)
    middle, low, high = top + _BAR / 2, _LABEL + spread.low * scale, _LABEL + spread.high * scale
    width = spread.median * scale
    return [
        _text(_LABEL - 8, top + _BAR - 4, label, "text-anchor='end'"),
        f"<rect x='{_LABEL}' y='{top}' width='{width:.1f}' height='{_BAR}' fill='{colour}'/>",
        f"<path d='M{low:.1f} {middle} H{high:.1f}' stroke='#222' fill='none'/>",
        _text(high + 6, top + _BAR - 4, short(spread.median)),
    ]


def curves(title: str, across: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines through points (x, y); both axes begin at zero.  A series whose name ends in "model" is dashed."""
    points = [point for line in series.values() for point in line]
    right, high = max(x for x, _ in points), max(y for _, y in points)
    left, bottom, width, height = 60, 300, 440, 250
    parts = [_text(10, 18, title, "font-weight='bold'"), _text(left + width / 2, bottom + 34, across)]
    parts.append(f"<path d='M{left} {bottom - height} V{bottom} H{left + width}' stroke='#222' fill='none'/>")
    for share in (0.5, 1.0):
        parts.append(_text(left - 6, bottom - share * height + 4, short(share * high), "text-anchor='end'"))
    for x in sorted({x for x, _ in points}):
        parts.append(
            _text(left + x / right * width, bottom + 16, short(x) if x % 1 else f"{x:.0f}", "text-anchor='middle'")
        )
    for number, (name, line) in enumerate(series.items()):
        colour = _CURVES[number // 2 % len(_CURVES)]
        dashes = " stroke-dasharray='5 4'" if name.endswith("model") else ""
        path = " ".join(f"{left + x / right * width:.1f},{bottom - y / high * height:.1f}" for x, y in line)
        parts.append(f"<polyline points='{path}' stroke='{colour}' stroke-width='2' fill='none'{dashes}/>")
        parts.append(_text(left + width + 16, bottom - height + 18 * number, name, f"style='fill:{colour}'"))
    return _document(left + width + 200, bottom + 50, parts)


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {_STYLE} {more}>{escape(text)}</text>"


def _document(width: float, height: float, parts: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}'>"
    return "\n".join([head, "<rect width='100%' height='100%' fill='white'/>", *parts, "</svg>", ""])
