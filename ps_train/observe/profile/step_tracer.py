"""Calls that TensorFlow traces: one now and then for the parts of a step's time, and those that --profile asks for.

tracer = StepTracer("worker:1", clocks)
run = tracer.begin(global_step)(session.run)     # makes the same calls, and traces some of them
tracer.latest                                    # {"step": 1150, "secs": 0.0081, "input": 0.0004, ...} or None
"""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import Fetches
from ps_train.cluster.sessions.ps_clocks import PsClocks
from ps_train.config.validators import SYNC_PARTS
from ps_train.observe.profile.step_parts import copy_secs, parts_of, segments_of, spans_of

log = logging.getLogger(__name__)

_CALLS_BEFORE, _PAUSE_SECS, _MOST_COST = 20, 10.0, 0.004
"""Calls before the first sample, the shortest pause between samples, and the share of time that they may cost."""
_RECENT = 50
"""Untraced calls of which the mean is kept."""


class TracedCall(NamedTuple):
    """A call that TensorFlow has traced.

    Attributes:
      step: the known global step before it.
      steps: the steps that it made.
      began, ended: nanoseconds since 1970; it begins where the loop's call before it ended.
      expected_end: its end if it were not traced; 0 if that is not known.
      step_stats: TensorFlow's `StepStats`.
      round_steps: the steps that share its exchange with the ps.
    """

    step: int
    steps: int
    began: int
    ended: int
    expected_end: int
    step_stats: Any
    round_steps: int = 1


class StepTracer:
    """Traces some of the calls of a replica's loop.  Nothing that goes wrong here reaches the training.

    Args:
      task: the replica.
      clocks: the clocks of the ps.
      first, count: every call from this known global step on is recorded, until it is `count` own steps; 0: none.
      recorded: gets the recorded calls, and the untraced seconds of a step; called in the training thread.

    Attributes:
      latest: the newest sample; seconds of one step and of its parts.
    """

    latest: dict[str, float] | None = None

    def __init__(
        self,
        task: str,
        clocks: PsClocks,
        first: int = 0,
        count: int = 0,
        recorded: Callable[[list[TracedCall], float], None] = lambda calls, secs: None,
    ) -> None:
        self._task, self._clocks, self._first, self._left, self._recorded = task, clocks, first, count, recorded
        self._calls: list[TracedCall] = []
        self._step = self._made = self._ended = 0
        # Of an untraced call, by its steps, negative for local ones; 0 after the first, which is prepared.
        self._secs: dict[int, float] = {}
        self._recent = collections.deque[tuple[int, float]](maxlen=_RECENT)
        self._due, self._sampled_from = 0.0, 0
        self._alone = 0  # local steps of the present round
        self._has_bare_rounds = False  # whether some end without hooks, which take time of their own
        self._analysis: threading.Thread | None = None

    def begin(self, global_step: int) -> Callable[[Any], Any]:
        """Returns the wrapper for the calls of a session that begins at that global step."""
        self._step, self._ended = global_step, 0
        self._secs.clear()  # each session prepares its calls again
        return self.wrap

    def wrap(self, run: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Any]:
        """Returns a function of fetches that makes the same calls."""
        options = v1.RunOptions()
        options.MergeFrom(getattr(run, "keywords", {}).get("options") or v1.RunOptions())  # it may have a deadline
        options.trace_level = v1.RunOptions.FULL_TRACE
        has_hooks = not getattr(run, "keywords", None)
        if not self._left:
            self._ended = 0  # the time between bursts is no part of a step

        def traced(fetches: Mapping[str, Any]) -> Any:
            steps, is_whole = (fetches.steps, fetches.rounds > 0) if isinstance(fetches, Fetches) else (1, False)
            is_local = "local" in fetches
            self._has_bare_rounds |= is_whole or (self._alone > 0 and not is_local and not has_hooks)
            is_rare = is_local or (self._has_bare_rounds and has_hooks)
            metadata = v1.RunMetadata() if self._is_wanted(steps, is_rare) else None
            began = time.time_ns()
            result = run(fetches) if metadata is None else run(fetches, options=options, run_metadata=metadata)
            ended = time.time_ns()
            kind = -steps if is_local else steps
            expected_end = began + int(self._known_secs(kind) * 1e9) if self._known_secs(kind) else 0
            stats = metadata and metadata.step_stats
            call = TracedCall(self._step, steps, self._ended or began, ended, expected_end, stats, self._alone + 1)
            self._alone = self._alone + steps if is_local else 0
            self._ended, self._step, self._made = ended, self._step + steps, self._made + 1
            self._note(call, kind, (ended - began) / 1e9)
            if "step" in fetches:
                self._step = int(result["step"])
            return result

        return traced

    def sample_anew(self, step: int) -> None:
        """Takes a sample from a global step on, since calls now take another time; begins to time them anew."""
        self._due, self._sampled_from = 0.0, step
        self._secs.clear()

    def finish(self) -> None:
        """Hands over what is recorded so far, at the end of a loop."""
        if self._left:
            self._recorded(list(self._calls), self._untraced())

    def _is_wanted(self, steps: int, is_rare: bool) -> bool:
        if self._left and self._step >= self._first:
            return True
        is_usual = self._alone > 0 or steps >= max(self._secs, default=1) or not self._made % _CALLS_BEFORE
        is_busy = self._analysis is not None and self._analysis.is_alive()
        is_due = self._made >= _CALLS_BEFORE and time.monotonic() >= self._due and self._step >= self._sampled_from
        return is_due and is_usual and not is_rare and not is_busy and self._known_secs(steps) > 0

    def _note(self, call: TracedCall, kind: int, secs: float) -> None:
        if call.step_stats is None:
            usual = self._secs.get(kind)
            self._secs[kind] = 0.0 if usual is None else usual + (secs - usual) / 10 if usual else secs
            if usual is not None:
                self._recent.append((call.steps, (call.ended - call.began) / 1e9))
        elif self._left and call.step >= self._first:
            self._calls.append(call)
            self._left = max(0, self._left - call.steps)
            if not self._left:
                self._recorded(self._calls, self._untraced())
                self._calls = []
        else:
            extra = max(0.0, secs - self._known_secs(kind))
            self._due = time.monotonic() + max(_PAUSE_SECS, extra / _MOST_COST)
            self._analysis = threading.Thread(target=self._analyse, args=[call], daemon=True, name="step-parts")
            self._analysis.start()

    def _untraced(self) -> float:
        """Returns the seconds of a step in the latest untraced calls, with the time between them."""
        return sum(secs for _, secs in self._recent) / max(1, sum(steps for steps, _ in self._recent))

    def _known_secs(self, kind: int) -> float:
        return self._secs.get(kind, 0.0)

    def _analyse(self, call: TracedCall) -> None:
        began = time.thread_time()
        try:
            offsets = {ps: offset.ahead for ps, offset in self._clocks.compare().items()}
            spans = spans_of(call.step_stats, self._task, offsets)
            parts = parts_of(segments_of(spans, call.began, call.ended, call.expected_end))
        except Exception as error:
            log.debug("a traced call could not be analysed: %s", error)
            return
        shared = {part: call.round_steps if part in SYNC_PARTS else 1 for part in parts}
        secs = {part: spent / call.steps / shared[part] for part, spent in parts.items()}
        copies = copy_secs(call.step_stats) / call.steps
        self.latest = {"step": call.step + call.steps, "secs": sum(secs.values()), **secs, "transfer": copies}
        self._due = max(self._due, time.monotonic() + (time.thread_time() - began) / _MOST_COST)
