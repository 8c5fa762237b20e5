"""The training loop: steps in bursts, with nothing but bare runs of one or several steps inside a burst.

    loop = Loop("worker:1", step, pace, should_stop, first_step=0)
    why = loop.run(monitored_session)         # STEPS, INPUT or STOPPED

A burst takes about a fifth of a second, so that the loop reacts in time; its last step is run alone, with the hooks.
So is what longer runs leave of a burst.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf

from ps_train.cluster.calls import UNBOUNDED_CALL
from ps_train.coordination.kv_store import cause_of
from ps_train.data.stream import data_error
from ps_train.errors import DataError, DivergedError
from ps_train.faults.slowdown import Slowdown
from ps_train.gradients.finite import NOT_FINITE
from ps_train.graph.train_step import TrainStep
from ps_train.training.burst_size import BurstScheduler
from ps_train.training.session import PS_LOST_ERRORS, LostConnectionError, LostInputError
from ps_train.training.step_timeline import StepTimeline

log = logging.getLogger(__name__)
STEPS, INPUT, STOPPED = "steps", "input", "stopped"
_INPUT_CANCELLED = "Iterator was cancelled"
"""TensorFlow's word to whoever reads on after a call that waited for the input was cancelled."""


class StepSource(Protocol):
    """How many steps a replica may make."""

    def take(self, wanted: int, global_step: int) -> int:
        """Up to `wanted` steps; 0 when there are no more.  `global_step` is the latest that the replica knows of."""

    def give_back(self, count: int) -> None:
        """Steps that were taken but not made."""


class LockstepSource:
    """Every replica makes every step, and knows the global step after each."""

    def __init__(self, max_steps: int) -> None:
        self._max_steps = max_steps

    def take(self, wanted: int, global_step: int) -> int:
        return max(0, min(wanted, self._max_steps - global_step))

    def give_back(self, count: int) -> None:
        """Nothing was taken from anybody."""


class TrainingLoop:
    """Runs one replica's steps.

    Args:
      name: what to call the replica in errors.
      first_step: the global step at which it begins.
      save_steps: if not 0, a burst ends at its multiples, where a checkpoint is due.
      rhythm: how long bursts and runs are.
      clocks: if given, every step is timed and written down.
      slowness: how many times longer every run is to take.

    Attributes:
      global_step: the latest that it knows of.
      made_any: whether it has made a step.
      calls: how many calls it has begun, the one under way included.
      is_prepared: whether TensorFlow has prepared the graph of the one that is under way.
    """

    def __init__(
        self,
        name: str,
        step: TrainStep,
        pace: StepSource,
        should_stop: Callable[[], bool],
        first_step: int,
        save_steps: int = 0,
        rhythm: BurstScheduler | None = None,
        clocks: StepTimeline | None = None,
        slowness: float = 1.0,
    ) -> None:
        self._name = name
        self._step, self._source, self._should_stop = step, pace, should_stop
        self._save_steps = save_steps
        self._timeline = clocks
        self._slowdown = Slowdown(slowness)
        self._bursts = rhythm or BurstScheduler()
        self._run_of = functools.cache(step.steps_per_call)
        self.global_step = first_step
        self.made_any = False
        self.calls = 0
        self.is_prepared = False
        self._lengths: set[int] = set()

    def run(self, session: tf.compat.v1.train.MonitoredSession) -> str:
        """Until there are no more steps, no more input, or somebody says stop."""
        while not self._should_stop():
            wanted = self._bursts.next_burst()
            if self._save_steps:
                wanted = min(wanted, self._save_steps - self.global_step % self._save_steps)
            count = self._source.take(wanted, self.global_step)
            if count == 0:
                return STEPS
            start = time.monotonic()
            try:
                made, ended = session.run_step_fn(self._burst_of(count))
            except tf.errors.InvalidArgumentError as error:
                if (unusable := data_error(error)) is not None:
                    raise unusable from None
                if NOT_FINITE in str(error):
                    raise DivergedError(
                        f"{NOT_FINITE}, on {self._name} after global step {self.global_step}; nothing of it was "
                        "applied or saved: use a smaller learning_rate, clip gradients, or --on_nan=skip."
                    ) from None
                raise
            if not self.made_any:
                log.debug("first step at global step %d", self.global_step)
                self.made_any = True
            self._bursts.record(count, time.monotonic() - start)
            self._source.give_back(count - made)
            if ended:
                return INPUT
        return STOPPED

    def _burst_of(self, count: int) -> Callable[[Any], tuple[int, bool]]:
        def burst(step_context: Any) -> tuple[int, bool]:  # MonitoredSession insists on this one parameter
            return self._burst(step_context, count)

        return burst

    def _with_hooks(self, run_with_hooks: Callable[[Any], Any]) -> float:
        """One step; the examples that it stands for."""
        ops = self._step.ops
        self._count_call(1)
        fetched = run_with_hooks({"train": ops.train, "step": ops.step_after, "examples": self._step.examples})
        self.global_step = int(fetched["step"])
        return float(fetched["examples"])

    def _count_call(self, length: int) -> None:
        """Counts a call of so many steps that is about to be made."""
        self.is_prepared = length in self._lengths
        self._lengths.add(length)
        self.calls += 1

    def _burst(self, step_context: Any, count: int) -> tuple[int, bool]:
        """Steps made, and whether the input has ended, which is told once."""
        run: Callable[..., Any] = functools.partial(step_context.session.run, options=UNBOUNDED_CALL)
        run_with_hooks: Callable[..., Any] = step_context.run_with_hooks
        if self._timeline is not None:
            run, run_with_hooks = self._timeline.timed(run), self._timeline.timed(run_with_hooks)
        run, run_with_hooks = self._slowdown.wrap(run), self._slowdown.wrap(run_with_hooks)
        begun = made = first = 0
        try:
            while begun < count - 1 and not self._should_stop():
                length = self._bursts.next_call_length(count - 1 - begun)
                first = first or length
                if length == 1 < first:  # what longer runs leave: by the graph that is prepared anyhow
                    made += self._with_hooks(run_with_hooks) > 0
                else:
                    self._count_call(length)
                    steps = run(self._run_of(length))["examples"]
                    made += sum(examples > 0 for examples in steps) if steps else length
                begun += length
            examples = self._with_hooks(run_with_hooks)
            return made + int(examples > 0), examples == 0
        except tf.errors.OutOfRangeError:
            if (ended := self._step.batches.ended) is not None and not ended.is_set():
                raise LostInputError from None
            if self._step.lockstep:
                raise DataError("this worker's share of the data is empty: use fewer workers.") from None
            return made, True
        except tf.errors.CancelledError as error:
            if _INPUT_CANCELLED in str(error):
                raise LostInputError from None
            raise
        except PS_LOST_ERRORS as error:
            # Not to be seen by MonitoredSession: it would close the session, which hangs for ever with a dead ps.
            raise LostConnectionError(cause_of(error)) from None
