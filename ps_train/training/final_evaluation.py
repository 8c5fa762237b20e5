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

from ps_train.cluster.server import device_of
from ps_train.coordination import records
from ps_train.coordination.heartbeat import task_statuses
from ps_train.coordination.kv_store import cause_of
from ps_train.coordination.liveness import TaskLiveness
from ps_train.coordination.records import INPUT_ENDED, WAITING
from ps_train.data.arrays import Arrays
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import DataSource
from ps_train.graph.evaluation import BATCH, EvalGraph, build_eval_graph, evaluate, metric_values, run_batches
from ps_train.training.context import TrainingContext
from ps_train.training.session import PS_LOST_ERRORS, TrainingSessionCreator

log = logging.getLogger(__name__)

FEW_BATCHES = 64
"""To begin takes a worker as long as so many batches: fewer are not shared out."""

_POLL_SECS = 0.05
_FAILED = "failed "


class _ShardGraphs:
    """Makes the graphs of shares of the test data."""

    def __init__(self, setting: TrainingContext) -> None:
        self._s = setting
        self.source = DataSource(lambda: setting.model.data("test", setting.job.data_dir), setting.job.max_bad_lines)

    def build(self, share: DataShard) -> EvalGraph | None:
        s = self._s
        return build_eval_graph(s.model, self.source, s.variables, s.plan, device_of(s.task), share)

    def are_worthwhile(self) -> bool:
        with tf.Graph().as_default():
            data = self.source.get()
        return data is not None and not (isinstance(data, Arrays) and len(data) <= FEW_BATCHES * BATCH)


class EvalWorker:
    """A worker that has no steps to make any more."""

    def __init__(self, setting: TrainingContext) -> None:
        self._s = setting
        self._seen = ""

    def update(self, sessions: TrainingSessionCreator) -> None:
        """Scores a share if the chief has asked for it.  Raises only what a lost ps does."""
        text = self._s.stores[0].get(records.SCORING)
        if not text or text == self._seen:
            return
        self._seen = text
        asked = records.EvalAssignment.from_json(text)
        index = asked.shares.get(str(self._s.task))
        if index is not None:
            done = self._submit(sessions, DataShard(index, asked.count))
            self._s.stores[0].set(records.eval_result_key(index), ("" if done else _FAILED) + asked.token)

    def _submit(self, sessions: TrainingSessionCreator, share: DataShard) -> bool:
        try:
            scoring = _ShardGraphs(self._s).build(share)
            assert scoring is not None and scoring.totals is not None, "the chief has found that there is something"
            session = sessions.open_session(scoring.graph)
            run_batches(session, scoring)
            session.run(scoring.totals.publish)
            log.debug("share %d of %d of the test data is handed in", share.index, share.count)
        except PS_LOST_ERRORS:
            raise
        except Exception as error:
            log.warning("share %d of the test data is left to the chief: %s", share.index, cause_of(error))
            return False
        return True


class EvalCoordinator:
    """The chief."""

    def __init__(self, setting: TrainingContext) -> None:
        self._s = setting
        self._shares = _ShardGraphs(setting)
        self._living = TaskLiveness(setting.job.worker_lease_secs)

    def score(self, sessions: TrainingSessionCreator) -> dict[str, float]:
        """The metrics over all test data; {} where there are none."""
        helpers = self._waiting_workers() if self._shares.are_worthwhile() else []
        scoring = self._shares.build(DataShard(0, 1 + len(helpers)))
        if scoring is not None and helpers and scoring.totals is None:
            helpers, scoring = [], self._shares.build(WHOLE)
        if scoring is None:
            return {}
        session = sessions.open_session(scoring.graph)
        return self._score_with_workers(sessions, session, scoring, helpers) if helpers else evaluate(session, scoring)

    def _score_with_workers(
        self, sessions: TrainingSessionCreator, session: v1.Session, scoring: EvalGraph, helpers: list[str]
    ) -> dict[str, float]:
        assert scoring.totals is not None
        asked = records.EvalAssignment(
            uuid.uuid4().hex, {task: 1 + n for n, task in enumerate(helpers)}, 1 + len(helpers)
        )
        self._s.stores[0].set(records.SCORING, asked.to_json())
        began = time.monotonic()
        total = _sum_of_shards(session, scoring)
        deadline = time.monotonic() + max(self._s.job.finish_timeout_secs, 2 * (time.monotonic() - began))
        for task, index in asked.shares.items():
            if self._is_submitted(asked, task, deadline):
                total = total + session.run(scoring.totals.of_share[index])
            else:
                log.info("the chief scores the share of %s, too", task)
                total = total + self._score_alone(sessions, DataShard(index, asked.count))
        session.run(scoring.totals.load, {scoring.totals.feed: total})
        return metric_values(session, scoring)

    def _score_alone(self, sessions: TrainingSessionCreator, share: DataShard) -> Any:
        scoring = self._shares.build(share)
        assert scoring is not None
        return _sum_of_shards(sessions.open_session(scoring.graph), scoring)

    def _waiting_workers(self) -> list[str]:
        """The other workers that wait for the end."""
        seats = task_statuses(self._s.stores[0].items())
        me = str(self._s.task)
        return sorted(
            s.task for s in seats if s.task != me and self._living.is_alive(s) and s.state in (WAITING, INPUT_ENDED)
        )

    def _is_submitted(self, asked: records.EvalAssignment, task: str, deadline: float) -> bool:
        """Waits for that as long as the task lives."""
        while not self._s.events.stop.is_set() and time.monotonic() < deadline:
            items = self._s.stores[0].items()
            said = items.get(records.eval_result_key(asked.shares[task]), "")
            if said.endswith(asked.token):
                return not said.startswith(_FAILED)
            if not any(seat.task == task and self._living.is_alive(seat) for seat in task_statuses(items)):
                return False
            time.sleep(_POLL_SECS)
        return False


def _sum_of_shards(session: v1.Session, scoring: EvalGraph) -> Any:
    """The sums of its share, float64 [n]."""
    assert scoring.totals is not None
    run_batches(session, scoring)
    return session.run(scoring.totals.vector)
