"""The training loop: steps in bursts; inside a burst there are only bare calls of one or several steps.

    loop = TrainingLoop("worker:1", step, source, should_stop, first_step=0)
    reason = loop.run(monitored_session)         # a LoopExit

A burst takes about a fifth of a second, because the loop must react in time.  The last step of a burst with hooks is
run alone, with the hooks.  So are the steps left over by longer calls.
"""

from __future__ import annotations

import enum
import functools
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ps_train.base.errors import DataError, DivergedError
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.sessions.calls import PS_LOST_ERRORS, UNBOUNDED_CALL, LostConnectionError, LostInputError
from ps_train.data.named_inputs import label_error
from ps_train.data.stream import data_error, with_any_bytes
from ps_train.engine.step.train_step import TrainStep
from ps_train.engine.updates.gradients.push_guard import NOT_FINITE, bad_inputs
from ps_train.training.loop.burst_size import Burst, BurstScheduler
from ps_train.training.loop.step_sources import StepSource

log = logging.getLogger(__name__)


class LoopExit(enum.Enum):
    """The reason why a loop has ended: no steps are left, the input has ended, or the loop was told to stop."""

    STEPS = "steps"
    INPUT = "input"
    STOPPED = "stopped"


class TrainingLoop:
    """The loop that runs one replica's steps.

    Args:
      name: name of the replica in errors.
      step: the training graph.
      source: the source of steps.
      should_stop: returns True when the loop must end.
      first_step: the global step at which the loop begins.
      bursts: sizes of bursts and calls; None for single steps.
      wrappers: each is applied to the functions that make calls, the first one innermost: to time or slow the calls.
      count: called with the number of steps and of examples of each call that has ended.

    Attributes:
      global_step: the latest known global step.
      made_any: True once a step has been made.
      calls: number of calls that have begun, the running one included.
    """

    def __init__(
        self,
        name: str,
        step: TrainStep,
        source: StepSource,
        should_stop: Callable[[], bool],
        first_step: int,
        bursts: BurstScheduler | None = None,
        wrappers: Sequence[Callable[[Any], Any]] = (),
        count: Callable[[int, float], None] = lambda steps, examples: None,
    ) -> None:
        self._name = name
        self._step, self._source, self._should_stop = step, source, should_stop
        self._bursts = bursts or BurstScheduler()
        self._wrappers = wrappers
        self._hooks_time = -math.inf
        self._opening = step.steps_per_call(0)["train"]
        self._count = count
        self._last_examples = 0.0
        self._made = 0  # steps of the present burst
        self.global_step = first_step
        self.made_any = False
        self.calls = 0
        self._session: Any = None
        self._begun = 0  # steps since the global step was known

    def run(self, session: tf.compat.v1.train.MonitoredSession) -> LoopExit:
        """Makes steps until the steps or the input end, or `should_stop` returns True; returns the reason.

        Raises:
          DivergedError: a loss or gradient is not finite.
          DataError: the data is unusable, or this worker's share is empty.
          LostConnectionError: a ps was lost.
          LostInputError: the input was cancelled by a lost session.
        """
        while not self._should_stop():
            start = time.monotonic()
            wanted = self._bursts.next_burst(self.next_step, start - self._hooks_time)
            count = self._source.take(wanted.steps, self.global_step)
            if count == 0:
                return self._end(LoopExit.STEPS)
            start = time.monotonic()
            try:
                # With fewer steps than wanted, these may be the last ones.
                burst = Burst(count, wanted.with_hooks or count < wanted.steps)
                with with_any_bytes():
                    made, ended = session.run_step_fn(self._burst_of(burst))
            except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
                if (unusable := data_error(error) or label_error(error)) is not None:
                    raise unusable from None
                if NOT_FINITE in str(error):
                    raise self._diverged(bad_inputs(str(error))) from None
                raise
            if not self.made_any:
                log.debug("first step at global step %d", self.global_step)
                self.made_any = True
            self._bursts.record(count, time.monotonic() - start)
            if made < count:
                self._source.give_back(count - made)
            if ended:
                return self._end(LoopExit.INPUT)
        return LoopExit.STOPPED

    def paused(self) -> None:
        """Takes in that steps have waited, for a checkpoint or the end of an epoch."""

    def _diverged(self, inputs: str) -> DivergedError:
        """Returns the error of a step that is not finite; `inputs` are those of its batch that are not."""
        what = f"{NOT_FINITE}, on {self._name} after global step {self.global_step}; that step was not applied or saved"
        if inputs:
            return DivergedError(
                f"{what}: its batch holds NaN or infinite values ({inputs}); correct the data, or leave such batches "
                "out by --on_nan=skip."
            )
        if not self.global_step and not self.made_any:  # the initial values: no update has changed them
            return DivergedError(
                f"{what}: look for a division by zero or the logarithm of 0 in forward() and loss(); if there is none, "
                "use a smaller learning_rate, clip gradients, or --on_nan=skip."
            )
        return DivergedError(f"{what}: use a smaller learning_rate, clip gradients, or --on_nan=skip.")

    def _end(self, reason: LoopExit) -> LoopExit:
        self._source.settle()
        return reason

    @property
    def next_step(self) -> int:
        """Returns the global step after the running call, if no other replica makes steps."""
        return self.global_step + self._begun

    def _burst_of(self, size: Burst) -> Callable[[Any], tuple[int, bool]]:
        def burst(step_context: Any) -> tuple[int, bool]:  # MonitoredSession requires exactly this parameter
            return self._burst(step_context, size)

        return burst

    def _with_hooks(self, run_with_hooks: Callable[[Any], Any]) -> float:
        """Makes one step with the hooks; returns its number of examples."""
        ops = self._step.ops
        self._count_call(1)
        fetched = run_with_hooks({"train": ops.train, "step": ops.step_after, "examples": self._step.worker.examples})
        self.global_step, self._begun, self._hooks_time = int(fetched["step"]), 0, time.monotonic()
        self._last_examples = float(fetched["examples"])
        self._count(1, self._last_examples)
        return self._last_examples

    def open_session(self, session: Any) -> None:
        """Makes the first call of the session, if it is one of its own."""
        if self._opening:
            self._count_call(0)
            session.run(self._opening, options=UNBOUNDED_CALL)
            self._opening = []

    def _count_call(self, length: int) -> None:
        """Counts a call of `length` steps before it is made."""
        self._begun += length
        self.calls += 1

    @property
    def step_secs(self) -> float:
        """The usual duration of a step in seconds; 0 before it is known."""
        return self._bursts.step_secs

    @property
    def is_prepared(self) -> bool:
        """True if TensorFlow has prepared all calls of the session that run now."""
        return not getattr(self._session, "is_preparing", False)

    def _burst(self, step_context: Any, size: Burst) -> tuple[int, bool]:
        """Makes a burst; returns the number of steps made, and True if the input has ended."""
        self._made = 0
        self._session = step_context.session
        run: Callable[..., Any] = functools.partial(step_context.session.run, options=UNBOUNDED_CALL)
        run_with_hooks: Callable[..., Any] = step_context.run_with_hooks
        for wrap in self._wrappers:
            run, run_with_hooks = wrap(run), wrap(run_with_hooks)
        try:
            self.open_session(step_context.session)
            lacks_examples = self.make_burst(run, run_with_hooks, size)
            # Data that workers share end where their source says so: all rows of a batch may be malformed.
            return self._made, lacks_examples and self._step.worker.batches.progress is None
        except StopIteration:  # a hook has ended the training before its step
            return self._made, True
        except tf.errors.OutOfRangeError:
            batches = self._step.worker.batches
            if batches.ended is not None and not batches.ended.is_set():
                raise LostInputError from None
            if self._step.lockstep:
                raise DataError(
                    f"this worker's share of {batches.name} is empty: check --data_dir or use fewer workers."
                ) from None
            return self._made, True
        except (tf.errors.CancelledError, *PS_LOST_ERRORS) as error:
            if "Iterator was cancelled" in str(error):  # of a call that waited for it; one error may tell of several
                raise LostInputError from None
            if isinstance(error, tf.errors.CancelledError):
                raise
            # Hidden from MonitoredSession: it would close the session, which hangs with a dead ps.
            raise LostConnectionError(cause_of(error)) from None

    def make_burst(self, run: Callable[..., Any], run_with_hooks: Callable[..., Any], size: Burst) -> bool:
        """Makes the calls of a burst; returns True if a step had no examples."""
        begun, in_calls = 0, size.steps - size.with_hooks
        while begun < in_calls and not self._should_stop():
            length = self._bursts.next_call_length(in_calls - begun)
            if length == 0:
                self._made += self._with_hooks(run_with_hooks) > 0
            else:
                self._count_call(length)
                steps = run(self._step.steps_per_call(length))["examples"]
                self._count(length, float(sum(steps)) if steps else length * self._last_examples)
                self._made += sum(examples > 0 for examples in steps) if steps else length
            begun += length or 1
        if not size.with_hooks:
            return self._made < begun
        examples = self._with_hooks(run_with_hooks)
        self._made += examples > 0
        return examples == 0
