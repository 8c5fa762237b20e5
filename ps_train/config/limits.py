"""Values of --health_limits: `sync_share:0.3,conflict_rate:0.5`."""

from __future__ import annotations

import math

HEALTH_RULES = (
    "sync_share", "device_secs", "conflict_rate", "staleness", "input_share", "ps_cpu", "ps_network", "balance",
    "ps_memory", "skipped", "dropped", "unsaved_secs", "hold_share", "slow_worker",
)  # fmt: skip
"""Names of the rules of health, which `observe/health.py` defines."""


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
