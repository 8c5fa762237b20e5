"""Faults requested with --inject_fault, which show how a job behaves when they happen.

    faults = parse(["kill:ps:0@200", "stop:worker:1@300+5s", "slow:worker:1x5", "drop_push:0.01"])
    schedule = Schedule(faults)
    schedule.due(step=204)              # the faults due now, each once

Pure, standard library only: the launcher sends the signals; a worker slows itself down and drops its own pushes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence

from ps_train.base.errors import ConfigError

FORMS = "kill:TASK@STEP, stop:TASK@STEP, stop:TASK@STEP+SECONDSs, slow:worker:IxFACTOR, drop_push:SHARE"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
      text: the fault as given by the user.
      kind: kill, stop, slow or drop_push.
      task: the task with the fault, `ps:0`; "" for every worker.
      step: the global step at which the fault happens; -1: from the beginning.
      amount: stop: seconds until the task continues (0: never); slow: factor of the slowdown; drop_push: fraction of
        dropped pushes.
    """

    text: str
    kind: str
    task: str = ""
    step: int = -1
    amount: float = 0.0


_NUMBER = r"(\d+(?:\.\d+)?)"
_FORMS: list[tuple[str, Callable[..., Fault]]] = [
    (r"(kill):((?:ps|worker|chief):\d+)@(\d+)", lambda text, kind, task, step: Fault(text, kind, task, int(step))),
    (
        rf"(stop):((?:ps|worker|chief):\d+)@(\d+)(?:\+{_NUMBER}s)?",
        lambda text, kind, task, step, secs: Fault(text, kind, task, int(step), float(secs or 0)),
    ),
    (
        rf"(slow):((?:worker|chief):\d+)x{_NUMBER}",
        lambda text, kind, task, factor: Fault(text, kind, task, amount=float(factor)),
    ),
    (rf"(drop_push):{_NUMBER}", lambda text, kind, share: Fault(text, kind, amount=float(share))),
]


def parse(texts: Iterable[str]) -> list[Fault]:
    """Parses faults; raises ConfigError for the first that has none of the FORMS."""
    return [_parse(text.strip()) for text in texts]


def _parse(text: str) -> Fault:
    for form, make_fault in _FORMS:
        if found := re.fullmatch(form, text):
            fault = make_fault(text, *found.groups())
            if fault.kind == "slow" and fault.amount < 1:
                raise ConfigError(f"inject_fault={text}: a factor of {fault.amount:g} is not slower: use 1 or more.")
            if fault.kind == "drop_push" and not 0 < fault.amount < 1:
                raise ConfigError(
                    f"inject_fault={text}: a share of {fault.amount:g} is not valid: use one between 0 and 1."
                )
            return fault
    raise ConfigError(f"inject_fault={text} is not understood: use {FORMS}.")


def check_tasks(faults: Sequence[Fault], tasks: Sequence[str]) -> None:
    """Raises ConfigError for a fault of an unknown task."""
    for fault in faults:
        if fault.task and fault.task not in tasks:
            raise ConfigError(f"inject_fault={fault.text}: there is no {fault.task}: the job has {', '.join(tasks)}.")


def slowdown_factor(texts: Iterable[str], task: str) -> float:
    """Returns the factor by which a task is slowed down."""
    factors = [fault.amount for fault in parse(texts) if fault.kind == "slow" and fault.task == task]
    return max(factors, default=1.0)


def dropped_share(texts: Iterable[str]) -> float:
    """Returns the fraction of its pushes that every worker drops."""
    return max((fault.amount for fault in parse(texts) if fault.kind == "drop_push"), default=0.0)


class Schedule:
    """Schedule of the faults that happen at a step.

    Args:
      faults: all faults; those without a step are ignored.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._left = sorted((fault for fault in faults if fault.step >= 0), key=lambda fault: fault.step)

    def due(self, step: int) -> list[Fault]:
        """Returns the faults due at this step; each fault is returned once."""
        due = [fault for fault in self._left if fault.step <= step]
        self._left = self._left[len(due) :]
        return due

    def __bool__(self) -> bool:
        return bool(self._left)
