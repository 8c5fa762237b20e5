"""The chief's hook that measures a job and changes the values that follow the measurements.

    values = [value for value in (batch_size, lead, codec) if not value.is_fixed]
    AdaptationHook(values, global_step, fetches, tracer)

The policy is in `adaptation_policy.py`.  The hook measures, writes a chosen value to ps 0 and logs it with its reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.lifecycle import event
from ps_train.cluster.sessions.calls import SHORT_CALL
from ps_train.config.following_values import AUTO_CODECS
from ps_train.engine.updates.following.adaptation_policy import (
    PUSHING,
    SYNCHRONISATION,
    WAITING,
    Adaptation,
    Measured,
    is_other_job,
)
from ps_train.engine.updates.following.adapted_value import AdaptedValue

log = logging.getLogger(__name__)

ADAPTED = {"batch_size": "batch", "max_steps_ahead": "ahead", "backup_workers": "backups", "push_codec": "push"}
"""The flags whose value may follow measurements, and the word for each on the progress line."""

SYNC_PARTS = ("pull", "push", "wait", "update")
"""Parts of a step that are synchronisation; see docs/WATCHING.md."""

SYNC_SHARE = 0.2
"""Largest share of a step that synchronisation may take, where --health_limits sets none."""

_MIN_SECS, _MIN_STEPS = 2.0, 20
"""Shortest time, and fewest global steps, of a measurement."""


def shown(name: str, value: int) -> int | str:
    """Returns a value as users see it: a codec by its name."""
    return AUTO_CODECS[int(value)] if name == "push_codec" else int(value)


class Tracer(Protocol):
    """The part of a `StepTracer` that the hook needs."""

    latest: dict[str, float] | None

    def sample_anew(self, step: int) -> None:
        """Takes a sample from a global step on; forgets the durations of calls."""


class AdaptationHook(v1.train.SessionRunHook):
    """The chief's hook.

    Args:
      values: the values that follow measurements, at least one.
      global_step: the variable.
      fetches: what is fetched in each step anyway, by name: "step", "examples" and "waiting" as in `RunCounters`, and
        "adapted", the present value of each flag.
      tracer: samples the parts of the chief's steps.
      clock: returns the time in seconds.
    """

    def __init__(
        self,
        values: Sequence[AdaptedValue],
        global_step: Any,
        fetches: Mapping[str, Any],
        tracer: Tracer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = Adaptation({value.name: value.ladder for value in values})
        self._is_traced = any(value.ladder.rule.cost != WAITING for value in values)
        self._tracer, self._clock = tracer, clock
        self._fetches = [fetches[name] for name in ("adapted", "step", "examples", "waiting")]
        self._changes = {value.name: value.change(global_step) for value in values}
        self._values: Mapping[str, int] = {}
        self._since: tuple[float, int, float, Any] | None = None
        self._rate = 0.0
        self._sampled_from = 0

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetches of the hook: values, global step, examples, waiting."""
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Measures; changes a value if the policy chooses another one."""
        found, step, examples, waiting = run_values.results
        values, now = {name: int(value) for name, value in found.items()}, self._clock()
        if self._since is None or values != self._values or step < self._since[1]:
            self._begin(values, (now, int(step), examples, waiting), has_changed=True)
            return
        began, first, examples_before, waiting_before = self._since
        if now - began < _MIN_SECS or step - first < _MIN_STEPS:
            return
        waited, total = (waiting - waiting_before).sum(axis=0)
        shares = {WAITING: float(waited / total) if total > 0 else 0.0, **self._sampled()}
        rate = float(examples - examples_before) / (now - began)
        is_other, self._rate = self._rate > 0 and is_other_job(self._rate, rate), rate
        change = self._policy.next_change(values, Measured(rate, shares))
        if change is not None:
            name, old = change.name, shown(change.name, values[change.name])
            text = f"{name}={shown(name, change.value)} from step {step + 1} on, before {old}: {change.reason}"
            wanted, assign = self._changes[name]
            try:
                run_context.session.run(assign, {wanted: change.value}, options=SHORT_CALL)
                values = {**values, name: change.value}
                log.info("%s", text, extra=event("adapted"))
            except tf.errors.DeadlineExceededError:
                log.debug("%s could not be changed: ps:0 is busy", name)
        self._begin(values, (now, int(step), examples, waiting), values != self._values or is_other)

    def _begin(self, values: Mapping[str, int], since: tuple[float, int, float, Any], has_changed: bool) -> None:
        """Begins to measure; after a change, of a value or of the job's speed, with a new sample of a step."""
        self._values, self._since = values, since
        if has_changed:
            self._rate, self._sampled_from = 0.0, since[1] + _MIN_STEPS  # steps before may have had the values before
            if self._is_traced:
                self._tracer.sample_anew(self._sampled_from)

    def _sampled(self) -> dict[str, float]:
        """Returns the shares that the latest sample of a step tells; none if it is older than a change."""
        sample = self._tracer.latest
        if sample is None or sample["step"] < self._sampled_from or sample["secs"] <= 0:
            return {}
        synchronisation = sum(sample[part] for part in SYNC_PARTS) / sample["secs"]
        return {SYNCHRONISATION: synchronisation, PUSHING: sample["push"] / sample["secs"]}
