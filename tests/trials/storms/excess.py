"""How many updates more ps 1 may have made than ps 0, under async, by what the chiefs have said of their recoveries.

    excess([Loss({1}, 80, 20)])         # (-20, -20): ps 1 went back to step 80, ps 0 stood at 100

Each ps alone goes back to the last checkpoint.  What it was ahead at that moment it is again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

LOST = re.compile(
    r"^(?:(ps:\d(?:, ps:\d)*) restarted; restored step (\d+); (\d+|an unknown number of) updates lost"
    r"|resumed from .* at step (\d+))",
    re.MULTILINE,
)
"""A chief's line on what was lost."""


@dataclasses.dataclass(frozen=True)
class Loss:
    """What a chief has restored.

    Attributes:
      ps: the restored ones; all where a job was resumed.
      restored: the step of the checkpoint.
      updates: how many were lost, as the chief says, at least; None where it does not know.
    """

    ps: frozenset[int]
    restored: int
    updates: int | None = None


def losses_in(output: str) -> list[Loss]:
    """Returns what the chief says in its output."""
    found = []
    for names, restored, count, resumed in LOST.findall(output):
        if resumed:
            found.append(Loss(frozenset({0, 1}), int(resumed)))
        else:
            lost = frozenset(int(name.partition(":")[2]) for name in names.split(", "))
            found.append(Loss(lost, int(restored), int(count) if count.isdigit() else None))
    return found


def excess(losses: Iterable[Loss], steps: int, unheard: int) -> tuple[int, int]:
    """Returns the smallest and the largest number of updates that ps 1 may have made beyond those of ps 0.

    Args:
      losses: in the order in which they were restored.
      steps: the last step of the job.
      unheard: how many updates the chief may not have heard of when ps 0 was lost: others train on while the chief
        makes its burst.
    """
    history: list[tuple[int, tuple[int, int]]] = [(-1, (0, 0))]
    for loss in losses:
        least, most = _at(history, loss.restored)
        after = loss.restored
        if loss.ps == {1}:
            assert loss.updates is not None, "ps 0 lives, and so the chief knows the step"
            after += loss.updates
            least, most = least - loss.updates, most - loss.updates
        elif loss.ps == {0}:
            least, most = history[-1][1]
            left = steps - loss.restored
            known, unknown = (0, left) if loss.updates is None else (loss.updates, min(unheard, left - loss.updates))
            least, most = least + known, most + known + max(0, unknown)
        history.append((after, (least, most)))
    return history[-1][1]


def _at(history: list[tuple[int, tuple[int, int]]], step: int) -> tuple[int, int]:
    """Returns the excess in the newest checkpoint of a step: written after the last loss that left a lower step."""
    found: list[tuple[int, int]] = []
    for after, bounds in reversed(history):
        if after <= step:
            found.append(bounds)
        if after < step:
            break
    return min(least for least, _ in found), max(most for _, most in found)
