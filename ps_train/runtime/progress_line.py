"""The progress line of a terminal: the plain line with a bar, as wide as the terminal allows.

    fit("step 500/2000  loss 0.2500  3200 examples/s  ETA 0:15", width=80)
    # [######------------------] step 500/2000  loss 0.2500  3200 examples/s  ETA 0:15

Standard library only, since the launcher uses it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

_GAP = "  "
_LONGEST_BAR, _WIDE_BAR, _SHORTEST_BAR = 30, 10, 3
_FIRST = (r"step ", r"loss ", r".* examples/s$", r"ETA ")
"""The parts that are shown as long as possible; the others are left out first."""


def fit(text: str, width: int) -> str:
    """Returns a progress line that takes fewer than `width` columns.

    Parts that matter less are left out first.  Then the labels become short, and at last the bar goes.

    Args:
      text: the plain line, whose parts stand two spaces apart.
      width: columns of the terminal.
    """
    room = max(1, width - 1)  # a terminal may go to the next line after a character in its last column
    share = _share(text)
    if share is None and not re.match(r"step \d+  ", text):
        return text[:room]
    for parts, gap, shortest_bar in _variants(text.split(_GAP)):
        line = gap.join(parts)
        if not shortest_bar or share is None:
            if len(line) <= room:
                return line
        elif (left := room - len(line) - len("[] ")) >= shortest_bar:
            return f"{_bar(share, min(left, _LONGEST_BAR))} {line}"
    return text[:room]


def _variants(parts: Sequence[str]) -> Iterator[tuple[list[str], str, int]]:
    """Yields (parts, gap between them, shortest bar), the best first; 0 stands for no bar."""
    kept = list(parts)
    while len(kept) > (first := sum(map(_is_first, kept))):
        yield kept, _GAP, _WIDE_BAR
        last = max(index for index, part in enumerate(kept) if not _is_first(part))
        kept = kept[:last] + kept[last + 1 :]
    yield kept, _GAP, _WIDE_BAR
    yield kept, " ", _WIDE_BAR
    for shorten in (_short, _shortest):
        yield [shorten(part) for part in kept], " ", _SHORTEST_BAR
    for count in range(first, 0, -1):
        yield [_shortest(part) for part in kept[:count]], " ", 0


def _is_first(part: str) -> bool:
    return any(re.match(pattern, part) for pattern in _FIRST)


def _share(text: str) -> float | None:
    """Returns the share of the steps that are made; None if the line does not give it."""
    found = re.match(r"step (\d+)/(\d+)", text)
    return min(1.0, int(found[1]) / int(found[2])) if found and int(found[2]) else None


def _bar(share: float, length: int) -> str:
    full = int(share * length)
    return f"[{'#' * full}{'-' * (length - full)}]"


def _short(part: str) -> str:
    """Returns a part with short labels."""
    return part.replace(" examples/s", " ex/s").removeprefix("step ")


def _shortest(part: str) -> str:
    """Returns a part with the shortest labels and at most three digits of precision."""
    part = _short(part).removeprefix("ETA ")
    rules: list[tuple[str, Callable[[re.Match[str]], str]]] = [
        (r"^(\d{4,}) ex/s$", lambda found: f"{_rounded(int(found[1]))} ex/s"),
        (r"^loss (-?\d+\.\d+)$", lambda found: f"loss {float(found[1]):.3g}"),
    ]
    for pattern, shortened in rules:
        part = re.sub(pattern, shortened, part)
    return part


def _rounded(number: int) -> str:
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number / 1e3:.0f}k" if number >= 1e4 else str(number)
