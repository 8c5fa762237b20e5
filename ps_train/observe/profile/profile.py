"""The profile of a job's steps (--profile): each worker records its own, and the chief joins them into one trace.

Records travel through a table of their own on ps 0.  Everything but the tracing itself happens in threads that the
training does not wait for, except for a moment at its end.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from ps_train.base.errors import shown
from ps_train.base.lost_outputs import lose
from ps_train.base.polling import poll_until
from ps_train.base.untrusted import UntrustedError
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.sessions.ps_clocks import PsClocks
from ps_train.config.output_fields import parse_profile
from ps_train.config.tracker_check import tensorboard_command
from ps_train.config.validators import is_number
from ps_train.observe.profile.step_record import StepRecord, table_of
from ps_train.observe.profile.step_tracer import StepTracer, TracedCall
from ps_train.observe.profile.trace_file import write_trace

log = logging.getLogger(__name__)

_PIECE, _MOST_PIECES = 1 << 19, 1000
_COLLECT_SECS, _END_SECS, _POLL_SECS = 60.0, 10.0, 0.2
"""Seconds to wait for the records of other workers: while training goes on, and at its end."""
_ANALYSIS_SECS = 60.0
"""Seconds that the end of the training waits for this task's own record, which takes about 10 s for 1000 steps."""


class Profile:
    """One task's part of a profile.

    Args:
      text: the flag, STEP:COUNT; "" for no profile.
      others: the other workers; the chief joins their records with its own.
      directory: of the chief's trace; "" for other tasks.
      targets: returns the present TensorFlow target of each ps.
      write: writes a line where the user sees it.
      further: returns the targets of other servers of this task's sessions, by name.

    Attributes:
      tracer: the tracer of this task's steps.
    """

    def __init__(
        self,
        text: str,
        task: str,
        others: Sequence[str],
        directory: str,
        targets: Callable[[], Sequence[str]],
        write: Callable[[str], None],
        further: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._text, self._task, self._others = text, task, list(others) if directory else []
        self._directory, self._targets, self._write = directory, targets, write
        self._clocks = PsClocks(targets, further)
        first, count = parse_profile(text) or (0, 0)
        self.tracer = StepTracer(task, self._clocks, first, count, self._recorded)
        self._threads: list[threading.Thread] = []
        self._deadline = 0.0
        self._is_over = False

    def finish(self) -> None:
        """Hands over what is recorded, at the end of a loop; the chief waits up to 10 s for the other workers."""
        self.tracer.finish()
        self.close(_END_SECS, _ANALYSIS_SECS)

    def close(self, within_secs: float = 1.0, analysis_secs: float = 1.0) -> None:
        """Ends the profile: after `within_secs` the chief waits for no other worker.  Returns when all is written.

        Args:
          within_secs: seconds for the other workers' records.
          analysis_secs: seconds for this task's own record.
        """
        self._deadline = min(self._deadline, time.monotonic() + within_secs)
        if self._threads:
            self._threads[-1].join(within_secs + analysis_secs)

    def _recorded(self, calls: list[TracedCall], untraced_secs: float) -> None:
        if self._is_over:
            return
        self._deadline = time.monotonic() + _COLLECT_SECS
        self._is_over = bool(self._directory)
        work = threading.Thread(target=self._hand_over, args=[calls, untraced_secs], daemon=True, name="profile")
        self._threads.append(work)
        work.start()

    def _hand_over(self, calls: list[TracedCall], untraced_secs: float) -> None:
        try:
            record = StepRecord.of(self._task, calls, self._clocks.compare(), untraced_secs) if calls else None
            if self._directory:
                self._join(record)
            elif record is not None:
                _publish(self._store(), record)
        except Exception as error:  # a ps is gone, or the disk is full: training goes on
            if self._directory and isinstance(error, OSError):
                lose(f"profile={self._text}", error)
            else:
                log.warning("the profile of %s is lost: %s", self._task, error)

    def _store(self) -> KeyValueStore:
        return KeyValueStore(self._targets()[0], "ps:0", table="ps_train_profile")

    def _join(self, own: StepRecord | None) -> None:
        """Waits for the other workers' records, writes the trace, and prints the table."""
        records = {} if own is None else {self._task: own}
        store = self._store()

        def is_complete() -> bool:
            for task in set(self._others) - set(records):
                if (found := _fetch(store, task)) is not None:
                    records[task] = found
            return set(self._others) <= set(records)

        try:
            while not poll_until(is_complete, time.monotonic() + 2 * _POLL_SECS, _POLL_SECS):
                if time.monotonic() > self._deadline:
                    break
        except Exception as error:
            log.debug("no further records: %s", error)
        missing = sorted({self._task, *self._others} - set(records))
        if missing:
            log.warning("the profile has no steps of %s", ", ".join(missing))
        if records:
            self._report([records[task] for task in sorted(records)])

    def _report(self, records: list[StepRecord]) -> None:
        chief = next((record for record in records if record.task == self._task), records[0])
        directory = os.path.join(self._directory, "plugins", "profile", f"step-{self._text.partition(':')[0]}")
        path = write_trace(directory, [row for record in records for row in record.rows(chief.clock)])
        micros = (max(record.clock.uncertainty for record in records) + chief.clock.uncertainty) / 1e3
        steps = " ".join(f"{record.task}: {record.steps}" for record in records)
        short = sum(record.left_out for record in records)
        self._write(
            f"profile={self._text}: steps recorded {steps}, clocks agree to {micros:.0f} us"
            f"{f', {short} shortest operations left out' if short else ''}\n"
            f"{table_of(records)}\ntrace: {path} (ui.perfetto.dev; {tensorboard_command(self._directory)})"
        )


def _publish(store: KeyValueStore, record: StepRecord) -> None:
    """Writes a record in pieces, the number of pieces last."""
    text = record.to_text()
    pieces = [text[begin : begin + _PIECE] for begin in range(0, len(text), _PIECE)]
    for number, piece in enumerate(pieces):
        store.set(f"{record.task}/{number}", piece)
    store.set(record.task, str(len(pieces)))


def _fetch(store: KeyValueStore, task: str) -> StepRecord | None:
    count = store.get(task)
    if count and not (is_number(count) and int(count) <= _MOST_PIECES):
        raise UntrustedError(f"the record of {task} has {shown(count)} pieces")
    return StepRecord.from_text("".join(store.get(f"{task}/{n}") for n in range(int(count)))) if count else None
