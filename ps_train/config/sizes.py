"""Sizes in bytes as text."""

from __future__ import annotations


def human_bytes(count: float) -> str:
    """Returns a number of bytes as text with a unit, such as "1.5 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
