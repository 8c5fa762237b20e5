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

from ps_train.base.gauge import Gauge
from ps_train.base.lifecycle import event
from ps_train.cluster.sessions.calls import SHORT_CALL
from ps_train.config.following_values import AUTO_CODECS
from ps_train.config.validators import SYNC_PARTS
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

_SHOWN = (
    Gauge("batch_size", "Batch size", "Examples that a worker uses in a step.", "{batch_size} of {job.batch_size}",
          "batch_size", "Examples in a batch, where the size follows the network.", word="batch"),
    Gauge("max_steps_ahead", "Steps ahead, at most", "How far a worker may be ahead of the slowest one.", "",
          "max_steps_ahead", "Lead of workers, where it follows the stragglers.", word="ahead"),
    Gauge("backup_workers", "Backup workers", "Gradients of so many of the slowest workers are not waited for.", "",
          "backup_workers", "Backup workers, where they follow the stragglers.", word="backups"),
    Gauge("local_steps", "Local steps", "Steps that a worker makes between two exchanges.", "",
          "local_steps", "Local steps of a round, where they follow the network.", word="local"),
    Gauge("push_codec", "Push codec", "How gradients are encoded on their way to the parameter servers.", "",
          "push_codec", "1 for the present codec of pushes, where it follows the network.", word="push",
          names=AUTO_CODECS, samples=lambda codec: [({"codec": codec}, 1)]),
)  # fmt: skip

ADAPTED = {gauge.key: gauge for gauge in _SHOWN}
"""The flags whose value may follow measurements, and how each is shown."""

_MIN_SECS, _MIN_STEPS = 2.0, 20
"""Shortest time, and fewest global steps, of a measurement."""


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
        "gauges" with the present value of each.
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
        present = {value.name: fetches["gauges"][ADAPTED[value.name]] for value in values}
        self._fetches = [present, *(fetches[name] for name in ("step", "examples", "waiting"))]
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
            name, shown = change.name, ADAPTED[change.name].shown
            old = shown(values[name])
            text = f"{name}={shown(change.value)} from step {step + 1} on, before {old}: {change.reason}"
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
