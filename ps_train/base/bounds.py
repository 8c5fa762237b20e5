"""A whole number, or two bounds between which it follows a measurement.

Bounds.parse("64..512")     # Bounds(lower=64, upper=512)
Bounds.parse(32)            # Bounds(lower=32, upper=32)
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Bounds(NamedTuple):
    """The bounds of a number; they are equal where it is fixed.

    Attributes:
      lower: the number at the start.
      upper: the number that is never exceeded.
    """

    lower: int
    upper: int

    @classmethod
    def parse(cls, value: int | str) -> Bounds:
        """Returns the bounds of a number, or of a text as 64..512.

        Raises:
          ValueError: the value is neither.
        """
        text = str(value)
        if re.fullmatch(r"[0-9]{1,18}", text):
            return cls(int(text), int(text))
        if bounds := re.fullmatch(r"([0-9]{1,9})\.\.([0-9]{1,9})", text):
            return cls(int(bounds[1]), int(bounds[2]))
        raise ValueError(value)

    @property
    def is_range(self) -> bool:
        """True if the number follows a measurement."""
        return self.upper > self.lower
