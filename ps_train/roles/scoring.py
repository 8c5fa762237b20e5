"""The score at the end of a job: every worker that waits for the end scores a share of the test data.

    metrics = Scorer(setting).score(sessions)       # the chief
    Helper(setting).look(sessions)                  # the others, again and again

The chief says on the board who scores which share, scores one itself, and adds up what the others hand in on ps 0.
Where nobody hands in a share, because its worker is gone, or cannot, the chief scores it, too: the result is always
that of all test data.
"""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster import notices
from ps_train.cluster.board import cause_of
from ps_train.cluster.notices import INPUT_ENDED, WAITING
from ps_train.cluster.server import device_of
from ps_train.data.arrays import Arrays
from ps_train.data.shard import WHOLE, Share, Source
from ps_train.graph.scoring import BATCH, Scoring, add_up, build_scoring, measure, values_of
from ps_train.roles.finish import Living
from ps_train.roles.heart import seats_of
from ps_train.roles.session import LOST, Sessions
from ps_train.roles.setting import Setting

log = logging.getLogger(__name__)

FEW_BATCHES = 64
"""To begin takes a worker as long as so many batches: fewer are not shared out."""

_POLL_SECS = 0.05
_FAILED = "failed "


class _Shares:
    """Makes the graphs of shares of the test data."""

    def __init__(self, setting: Setting) -> None:
        self._s = setting
        self.source = Source(lambda: setting.model.data("test", setting.job.data_dir), setting.job.max_bad_lines)

    def build(self, share: Share) -> Scoring | None:
        s = self._s
        return build_scoring(s.model, self.source, s.traced, s.plan, device_of(s.task), share)

    def are_worthwhile(self) -> bool:
        with tf.Graph().as_default():
            data = self.source.get()
        return data is not None and not (isinstance(data, Arrays) and len(data) <= FEW_BATCHES * BATCH)


class Helper:
    """A worker that has no steps to make any more."""

    def __init__(self, setting: Setting) -> None:
        self._s = setting
        self._seen = ""

    def look(self, sessions: Sessions) -> None:
        """Scores a share if the chief has asked for it.  Raises only what a lost ps does."""
        text = self._s.boards[0].get(notices.SCORING)
        if not text or text == self._seen:
            return
        self._seen = text
        asked = notices.Scoring.from_json(text)
        index = asked.shares.get(str(self._s.task))
        if index is not None:
            done = self._hand_in(sessions, Share(index, asked.count))
            self._s.boards[0].put(notices.scored(index), ("" if done else _FAILED) + asked.mark)

    def _hand_in(self, sessions: Sessions, share: Share) -> bool:
        try:
            scoring = _Shares(self._s).build(share)
            assert scoring is not None and scoring.totals is not None, "the chief has found that there is something"
            session = sessions.another(scoring.graph)
            add_up(session, scoring)
            session.run(scoring.totals.hand_in)
            log.debug("share %d of %d of the test data is handed in", share.index, share.count)
        except LOST:
            raise
        except Exception as error:
            log.warning("share %d of the test data is left to the chief: %s", share.index, cause_of(error))
            return False
        return True


class Scorer:
    """The chief."""

    def __init__(self, setting: Setting) -> None:
        self._s = setting
        self._shares = _Shares(setting)
        self._living = Living(setting.job.worker_lease_secs)

    def score(self, sessions: Sessions) -> dict[str, float]:
        """The metrics over all test data; {} where there are none."""
        helpers = self._waiting() if self._shares.are_worthwhile() else []
        scoring = self._shares.build(Share(0, 1 + len(helpers)))
        if scoring is not None and helpers and scoring.totals is None:
            helpers, scoring = [], self._shares.build(WHOLE)
        if scoring is None:
            return {}
        session = sessions.another(scoring.graph)
        return self._together(sessions, session, scoring, helpers) if helpers else measure(session, scoring)

    def _together(
        self, sessions: Sessions, session: v1.Session, scoring: Scoring, helpers: list[str]
    ) -> dict[str, float]:
        assert scoring.totals is not None
        asked = notices.Scoring(uuid.uuid4().hex, {task: 1 + n for n, task in enumerate(helpers)}, 1 + len(helpers))
        self._s.boards[0].put(notices.SCORING, asked.to_json())
        began = time.monotonic()
        total = _added_up(session, scoring)
        deadline = time.monotonic() + max(self._s.job.finish_timeout_secs, 2 * (time.monotonic() - began))
        for task, index in asked.shares.items():
            if self._is_handed_in(asked, task, deadline):
                total = total + session.run(scoring.totals.of_share[index])
            else:
                log.info("the chief scores the share of %s, too", task)
                total = total + self._alone(sessions, Share(index, asked.count))
        session.run(scoring.totals.put, {scoring.totals.given: total})
        return values_of(session, scoring)

    def _alone(self, sessions: Sessions, share: Share) -> Any:
        scoring = self._shares.build(share)
        assert scoring is not None
        return _added_up(sessions.another(scoring.graph), scoring)

    def _waiting(self) -> list[str]:
        """The other workers that wait for the end."""
        seats = seats_of(self._s.boards[0].items())
        me = str(self._s.task)
        return sorted(s.task for s in seats if s.task != me and self._living(s) and s.state in (WAITING, INPUT_ENDED))

    def _is_handed_in(self, asked: notices.Scoring, task: str, deadline: float) -> bool:
        """Waits for that as long as the task lives."""
        while not self._s.attention.stop.is_set() and time.monotonic() < deadline:
            items = self._s.boards[0].items()
            said = items.get(notices.scored(asked.shares[task]), "")
            if said.endswith(asked.mark):
                return not said.startswith(_FAILED)
            if not any(seat.task == task and self._living(seat) for seat in seats_of(items)):
                return False
            time.sleep(_POLL_SECS)
        return False


def _added_up(session: v1.Session, scoring: Scoring) -> Any:
    """The sums of its share, float64 [n]."""
    assert scoring.totals is not None
    add_up(session, scoring)
    return session.run(scoring.totals.vector)
