"""The end of a job: the chief waits for the other tasks, saves, scores, writes the result, and tells everyone.

Another worker has no part in it: it waits for more steps until the main thread ends the process.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence

import tensorflow.compat.v1 as v1

from ps_train.base.errors import LostTaskError
from ps_train.base.life_sign import LastChange
from ps_train.base.polling import poll_until
from ps_train.cluster.membership import records
from ps_train.cluster.membership.records import Outcome, OutcomeKind
from ps_train.observe.status.result import RunSummary
from ps_train.observe.status.run_end import check_trained, report_end
from ps_train.training.duties.duty import POLL_SECS, Duty, Ending, Feed, Setting, Start
from ps_train.training.duties.final_evaluation import EvalCoordinator
from ps_train.training.duties.members import Members
from ps_train.training.duties.progressing import Progressing
from ps_train.training.duties.saving import Saving
from ps_train.training.duties.user_hooks import UserHooks
from ps_train.training.joining.join import JoinedAsChief

log = logging.getLogger(__name__)

_RETURN_SECS = 20.0
"""Seconds for which the end of a job waits for a ps that does not answer."""


class Finishing(Ending):
    """The chief's.

    Args:
      setting: what duties are made of.
      joined: the connections of the chief.
      members, progressing, saving, feed, user_hooks: duties that it asks, or tells.
      duties: have facts for the result, and settle before the last checkpoint.
      last: are told at the end, in this order.
    """

    def __init__(
        self,
        setting: Setting,
        joined: JoinedAsChief,
        members: Members,
        progressing: Progressing,
        saving: Saving,
        feed: Feed,
        user_hooks: UserHooks,
        duties: Sequence[Duty],
        last: Sequence[Duty],
    ) -> None:
        self._setting, self._job, self._joined = setting, setting.prepared.job, joined
        self._members, self._progressing, self._saving = members, progressing, saving
        self._feed, self._user_hooks, self._duties, self._last = feed, user_hooks, duties, last
        self._start: Start
        self._gave_up = ""
        self._still = LastChange()

    def opened(self, session: v1.Session, start: Start) -> None:
        """Knows the ledger and the sessions."""
        self._start = start

    def paused(self, session: v1.Session) -> None:
        """The wait for the other tasks begins."""
        self._still = LastChange()

    def is_over(self, session: v1.Session) -> bool:
        """Returns True when no other task trains, and none can; gives the steps of dead workers to others before."""
        step, others, job = self._progressing.step, self._members.others, self._job
        if not self._setting.step.lockstep and step < job.max_steps:
            self._start.ledger.reclaim(lambda: self._look(session), self._joined.membership.is_silent)
        ended = step >= job.max_steps or self._user_hooks.have_ended
        if not others.training and (ended or self._feed.is_exhausted(others)):
            return True
        if self._feed.waits_for_rows and not others.training:
            self._still = LastChange()
        if self._still.secs(step, time.monotonic()) > job.finish_timeout_secs:
            names = ", ".join(others.training)
            log.warning("no longer waiting for %s (finish_timeout_secs)", names)
            self._gave_up = "given up waiting for " + names
            return True
        return False

    def _look(self, session: v1.Session) -> int:
        self._progressing.waiting(session)
        return self._progressing.step

    def finish(self, session: v1.Session) -> None:
        """Saves the last checkpoint, scores it, writes the result, and publishes the outcome."""
        job, console, board = self._job, self._setting.console, self._joined.observer.board
        self._saving.end(session)
        self._user_hooks.announce_end()
        self._user_hooks.close(session)
        board.finishing()
        summary = self._summary(session)
        # A sum, because every duty settles.
        has_settled = sum(duty.settle(session) for duty in self._duties) > 0
        last = self._saving.save_last(session, summary.step, has_settled)
        summary = self._scored(summary, session)
        reason = "ended by a hook" if self._user_hooks.have_ended else self._gave_up or "all input ended"
        if report_end(summary, job, reason, self._joined.directory, console, self._joined.observer):
            self._progressing.add_scores(last.step, summary.metrics)
        for duty in self._last:
            duty.finished(last)
        self._wait_for_lost_ps()
        outcome = Outcome(OutcomeKind.DONE, by=str(self._setting.prepared.task))
        for store in self._joined.stores:
            try:
                store.compare_and_set(records.OUTCOME, "", outcome.to_json())
            except LostTaskError as error:  # the model is saved; that ps is not needed now
                log.warning("%s: it did not receive the news that the job is done", error)

    def _summary(self, session: v1.Session) -> RunSummary:
        """Returns what the run has made, before its test data are scored; refuses a job without an example."""
        summary = self._progressing.summary(session)
        if summary.step < self._job.max_steps:
            nothing, examples = self._feed.nothing(), summary.counters.examples
            check_trained(self._job, nothing, self._gave_up, summary.steps_made, examples)
        return summary

    def _scored(self, summary: RunSummary, session: v1.Session) -> RunSummary:
        """Returns the summary with the metrics of the test data, and what the duties know."""
        metrics = EvalCoordinator(self._setting, summary.counters.examples).score(self._start.sessions)
        facts = {name: value for duty in self._duties for name, value in duty.facts(session).items()}
        return dataclasses.replace(summary, metrics=metrics, saving=self._saving.report(), facts=facts)

    def _wait_for_lost_ps(self) -> None:
        """Waits for ps that are being restarted: one that comes after the outcome would wait for a job in vain.

        This thread is given up if one comes back, and training goes on to its end with it.
        """

        def all_answer() -> bool:
            try:
                return all(store.get(records.IDENTITY) for store in self._joined.stores)
            except LostTaskError as error:
                log.debug("%s", error)
                return False

        within_secs = min(_RETURN_SECS, self._job.recovery_timeout_secs)
        poll_until(all_answer, time.monotonic() + within_secs, POLL_SECS)
