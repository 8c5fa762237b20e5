"""Wrappers of the functions that make a replica's calls: to trace them, or to slow them down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ps_train.cluster.sessions.calls import Fetches
from ps_train.config.fault_spec import slowdown_factor
from ps_train.config.job import Job


class Slowdown:
    """A slowdown of a session's calls.

    Args:
      factor: factor by which each call takes longer; above 1.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._seen: set[Fetches | None] = set()

    def wrap(self, run: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], Any]:
        """Returns a slower version of a function of fetches.

        The first call of each kind is not slowed: TensorFlow prepares its graph, which may take seconds and is not
        part of the speed of steps.
        """

        def slow(fetches: Mapping[str, Any]) -> Any:
            began, kind = time.monotonic(), fetches if isinstance(fetches, Fetches) else None
            result = run(fetches)
            if kind in self._seen:
                time.sleep((self._factor - 1) * (time.monotonic() - began))
            self._seen.add(kind)
            return result

        return slow


def call_wrappers(job: Job, task: str, tracer: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
    """Returns the wrappers for a task, the innermost first, which is that of the `tracer`."""
    wrappers: list[Callable[[Any], Any]] = [tracer]
    if (factor := slowdown_factor(job.inject_fault, task)) > 1:
        wrappers.append(Slowdown(factor).wrap)
    return wrappers
