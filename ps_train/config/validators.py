"""Checks of single values, each with a description of the allowed values.

check = optional(at_least(1))
check.holds(0), check.allowed          # False, "a number of at least 1"
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

AUTO = "auto"
"""The value of a flag that leaves the choice to the job."""

HEALTH_RULES = (
    "sync_share", "device_secs", "conflict_rate", "staleness", "loss_rise", "input_share", "ps_cpu", "ps_network",
    "balance", "ps_memory", "skipped", "dropped", "unsaved_secs", "hold_share", "slow_worker", "lag_growth",
)  # fmt: skip
"""Names of the rules of health, which `observe/status/health.py` defines."""

SYNC_PARTS, SYNC_SHARE = ("pull", "push", "wait", "update"), 0.2
"""Parts of a step that are synchronisation, and their largest share of a step, where --health_limits sets none; see
help: watch#health."""


def parse_limits(text: str) -> dict[str, float]:
    """Returns the limits by the names of their rules.

    Raises:
      ValueError: a part is not RULE:NUMBER, or names no rule, or one twice.
    """
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition(":")
        limit = float(number)
        if name not in HEALTH_RULES or name in found or not math.isfinite(limit) or limit < 0:
            raise ValueError(part)
        found[name] = limit
    return found


AUTO_WEIGHTS = "auto"
"""The weights of the ps that the chief measures."""


def parse_weights(text: str) -> tuple[float, ...]:
    """Returns the weights of a text such as 1,1,0.5; an empty one has none, nor has "auto" before they are measured.

    Raises:
      ValueError: a part is not a number above 0.
    """
    weights = tuple(float(part) for part in text.split(",")) if text not in ("", AUTO_WEIGHTS) else ()
    if not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise ValueError(text)
    return weights


@dataclasses.dataclass(frozen=True)
class Check:
    """A check of one value.

    Attributes:
      allowed: description of the allowed values, for error texts.
      holds: returns True if a value is allowed.
    """

    allowed: str
    holds: Callable[[Any], bool]

    def accepts(self, value: Any) -> bool:
        """Returns True if a value of any type is allowed."""
        try:
            return self.holds(value)
        except (TypeError, AttributeError):
            return False


MOST_EXAMPLES = 2**31 - 1
"""Most examples of a batch: TensorFlow's kernels count rows in 32 bits."""


def at_least(low: float, most: int | None = None) -> Check:
    """Returns a check for numbers of at least `low`, and at most `most`."""
    limit = "" if most is None else f" and at most {most}"
    return Check(f"a number of at least {low}{limit}", lambda value: value >= low and (most is None or value <= most))


def above(low: float) -> Check:
    """Returns a check for numbers above `low`."""
    return Check(f"a number above {low}", lambda value: value > low)


def one_of(choices: tuple[str | int, ...]) -> Check:
    """Returns a check for a fixed set of values."""
    return Check("one of " + ", ".join(map(str, choices)), lambda value: value in choices)


def optional(check: Check) -> Check:
    """Returns a check that also allows None."""
    return Check(check.allowed, lambda value: value is None or check.holds(value))


def is_parsed_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Returns a function that returns True for each text that `parse` takes without a ValueError."""

    def holds(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return holds


def integer_or(word: str) -> Check:
    """Returns a check of a text: a whole number of at least 1, or the word."""
    return Check(f"a whole number of at least 1, or {word}", lambda value: value == word or _is_count(value))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) >= 1


anything = Check("any value", lambda value: True)


def is_number(text: str) -> bool:
    """Returns True for a non-negative integer of at most nine digits, enough for ports and indices."""
    return text.isascii() and text.isdigit() and len(text) <= 9


weights = Check("auto, or numbers above 0, one for each ps, as in 1,1,0.5", is_parsed_by(parse_weights))
