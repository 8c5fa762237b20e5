"""The chief's part of cuts by event time (--save_event_secs): a checkpoint when all partitions have reached one.

While all partitions have reached a cut, no worker has a batch, and so the chief makes no steps either.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base.errors import SaveError, shown
from ps_train.base.gauge import Gauge
from ps_train.base.untrusted import UntrustedError, is_of
from ps_train.data.unbounded.event_times import shown_time, window_end
from ps_train.engine.run_directory.cut_checkpoints import EventCut, add_cut, forget_cuts_after, read_cuts
from ps_train.observe.status.display import Display
from ps_train.training.duties.duty import Duty, Setting, Start
from ps_train.training.duties.progressing import Progressing
from ps_train.training.duties.saving import Saving
from ps_train.training.loop.event_gate import EventGate

log = logging.getLogger(__name__)

_RETRY_SECS = 5.0


class CutDisplay(Display):
    """What the status page shows of cuts beside the lag: the late rows of all workers, and the next cut."""

    gauges = (
        Gauge("stream.next_cut", "Next cut", text="{stream.next_cut|utc}", metric="next_cut_timestamp_seconds",
              help="Event time of the next checkpoint by event time, since 1970."),
        Gauge("stream.late_rows", "Late rows", metric="late_rows_total",
              help="Rows that came after the cut of their event time."),
    )  # fmt: skip

    def __init__(self) -> None:
        self._late_of: dict[str, float] = {}
        self._late: float | None = None
        self._next_cut: float | None = None

    def measured(self, task: str, record: Mapping[str, Any]) -> None:
        """Takes in the late rows of a worker since its start, and the next cut in ms; 0: none is chosen."""
        if "next_cut_ms" not in record:
            return
        found = {"late_rows": record.get("late_rows", 0), "next_cut_ms": record["next_cut_ms"]}
        if not is_of("dict[str, float]", found) or min(found.values()) < 0:
            raise UntrustedError(f"it has the cuts {shown(found)}")
        late, before = found["late_rows"], self._late_of.get(task, 0.0)
        self._late = (self._late or 0.0) + (late - before if late >= before else late)
        self._late_of[task] = late
        self._next_cut = found["next_cut_ms"] / 1000 or self._next_cut

    def values(self, status: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        """Adds both to the section `stream`, the cut in seconds since 1970; None without cuts."""
        stream = status["stream"]
        return {} if stream is None else {"stream": {**stream, "late_rows": self._late, "next_cut": self._next_cut}}


class EventCuts(Duty):
    """The cuts of a run.

    Args:
      gate: the chief's own, which knows the cut and the partitions.
      progressing: knows the global step.
      saving: takes the checkpoints.
    """

    def __init__(self, setting: Setting, gate: EventGate, progressing: Progressing, saving: Saving) -> None:
        job = setting.prepared.job
        self._gate, self._table, self._progressing = gate, gate.table, progressing
        self._save, self._tell = saving.save_at_rest, setting.console.line
        self._window_ms = max(1, round(job.save_event_secs * 1000))
        self._directory, self._keep, self._max_steps = setting.joined.directory, job.keep_checkpoints, job.max_steps
        self._next_try = -math.inf

    def opened(self, session: v1.Session, start: Start) -> None:
        """Forgets the cuts after the step at which training goes on: they are made again."""
        forget_cuts_after(self._directory, start.step)

    def waiting(self, session: v1.Session) -> None:
        """Goes on with the cuts, while steps are left."""
        if self._progressing.step < self._max_steps:
            self.advance(session)

    def advance(self, session: v1.Session) -> None:
        """Takes the checkpoint if all partitions have reached the cut, then sets the next cut.

        The cut is closed before the checkpoint, so the checkpoint itself says that it is one.
        """
        if time.monotonic() < self._next_try or (cut := self._gate.reached_all(session)) is None:
            return
        last, next_cut, times = cut
        if next_cut:
            self._table.move(session, next_cut, 0)
            last = next_cut
        first_after = max(last, min(times))  # rows that came too late are not of the next cut
        if last and last not in [cut.event_time for cut in read_cuts(self._directory)]:
            try:
                step = self._save(session)
                add_cut(self._directory, EventCut(last, step, first_after), self._keep)
            except (SaveError, OSError) as error:
                log.warning("the cut of %s waits for %gs: %s", shown_time(last), _RETRY_SECS, error)
                self._next_try = time.monotonic() + _RETRY_SECS
                return
            self._tell(f"cut of {shown_time(last)}: the checkpoint of step {step}")
        self._table.move(session, last, window_end(first_after, self._window_ms))
