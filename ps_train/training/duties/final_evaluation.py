"""The final evaluation: the chief and every worker that waits for the end score one shard of the test data each.

    metrics = EvalCoordinator(setting, examples).score(sessions)       # the chief
    ScoringForChief(setting)                                                    # the duty of other workers

The chief publishes the assignment of shards in the store, scores one shard itself, and merges the totals that the
workers publish on ps 0.  If a worker fails or dies, the chief scores its shard too.  So the result always covers all
test data.
"""

from __future__ import annotations

import logging
import time
import uuid

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.base.polling import poll_until
from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.membership.liveness import TaskLiveness
from ps_train.cluster.membership.records import TaskState, task_statuses
from ps_train.cluster.sessions.calls import PS_LOST_ERRORS
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import DataSource
from ps_train.engine.step.evaluation import (
    BATCH,
    EvalGraph,
    EvalLimit,
    build_eval_graph,
    evaluate,
    find_slices,
    metric_values,
    run_batches,
)
from ps_train.engine.step.metric_sums import Totals
from ps_train.engine.step.slices import Slices
from ps_train.engine.variables.plan import Plan
from ps_train.modeling.splits import test_source
from ps_train.training.duties.duty import Duty, Setting, Start
from ps_train.training.joining.prepare import Prepared
from ps_train.training.loop.session import ClusterSessions

log = logging.getLogger(__name__)

FEW_BATCHES = 64
"""The start of a worker takes as long as this number of batches: a smaller split is not divided."""

_POLL_SECS = 0.05
_FAILED = "failed "


class _ShardGraphs:
    """Builder of the evaluation graphs of test data shards."""

    def __init__(self, prepared: Prepared, plan: Plan) -> None:
        self._prepared, self._plan = prepared, plan
        self.source = test_source(prepared.model, prepared.job)

    def build(self, shard: DataShard, slices: Slices) -> EvalGraph | None:
        task = self._prepared
        device = task.device
        return build_eval_graph(task.model, self.source, task.variables, self._plan, device, shard, slices)

    def slices(self, limit: EvalLimit) -> Slices:
        """Returns the parts of the test data that have metrics of their own."""
        return find_slices(self.source, self._prepared.job.eval_by, limit)

    def are_worthwhile(self) -> bool:
        """Returns True if the test data is large enough to be divided."""
        with tf.Graph().as_default():
            has_data = self.source.get() is not None
        arrays = self.source.loaded
        return has_data and (arrays is None or len(arrays) > FEW_BATCHES * BATCH)


class ScoringForChief(Duty):
    """Test data that a worker without steps left scores for the chief."""

    def __init__(self, setting: Setting) -> None:
        self._prepared, self._plan, self._store = setting.prepared, setting.agreed.plan, setting.joined.stores[0]
        self._sessions: ClusterSessions
        self._last_text = ""

    def opened(self, session: v1.Session, start: Start) -> None:
        """Takes the sessions of the cluster."""
        self._sessions = start.sessions

    def waiting(self, session: v1.Session) -> None:
        """Scores a shard if the chief has assigned one; raises only the errors of a lost ps."""
        text = self._store.get(records.SCORING)
        if not text or text == self._last_text:
            return
        self._last_text = text
        assignment = records.EvalAssignment.from_json(text)
        index = assignment.shares.get(str(self._prepared.task))
        if index is not None:
            slices = Slices(assignment.field, tuple(assignment.values))
            done = self._submit(DataShard(index, assignment.count), assignment, slices)
            self._store.set(records.eval_result_key(index), ("" if done else _FAILED) + assignment.token)

    def _submit(self, shard: DataShard, assignment: records.EvalAssignment, slices: Slices) -> bool:
        try:
            graphs = _ShardGraphs(self._prepared, self._plan)
            graph = graphs.build(shard, slices)
            check_same_examples(graphs.source, assignment)
            assert graph is not None and graph.metric_sums is not None, "the chief has found test data"
            session = self._sessions.open(graph.graph)
            run_batches(session, graph, EvalLimit(assignment.least_examples, self._prepared.job.finish_timeout_secs))
            session.run(graph.metric_sums.publish)
            log.debug("shard %d of %d of the test data is scored", shard.index, shard.count)
        except PS_LOST_ERRORS:
            raise
        except Exception as error:
            log.warning("shard %d of the test data is left to the chief: %s", shard.index, cause_of(error))
            return False
        return True


def check_same_examples(source: DataSource, assignment: records.EvalAssignment) -> None:
    """Raises DataError if a task's test data have another number of examples than the chief's: shares would overlap."""
    count, of_chief = source.count, assignment.examples
    if min(count, of_chief) >= 0 and count != of_chief:
        raise DataError(f"{source.name} has {count} examples here and {of_chief} at the chief.")


class EvalCoordinator:
    """The chief's part of the final evaluation, after a training with so many examples."""

    def __init__(self, setting: Setting, trained: float) -> None:
        self._prepared, self._joined, self._trained = setting.prepared, setting.joined, trained
        self._graphs = _ShardGraphs(setting.prepared, setting.agreed.plan)
        self._liveness = TaskLiveness(setting.prepared.job.heartbeat_timeout_secs)

    def score(self, sessions: ClusterSessions) -> dict[str, float]:
        """Returns the metrics over all test data; {} without test data or metrics."""
        workers = self._waiting_workers() if self._graphs.are_worthwhile() else []
        self._slices = self._graphs.slices(EvalLimit.of(self._prepared.job, self._trained))
        graph = self._graphs.build(DataShard(0, 1 + len(workers)), self._slices)
        if graph is not None and workers and graph.metric_sums is None:
            workers, graph = [], self._graphs.build(WHOLE, self._slices)
        if graph is None:
            return {}
        session = sessions.open(graph.graph)
        self._limit = EvalLimit.of(self._prepared.job, self._trained, 1 + len(workers))
        if not workers:
            return evaluate(session, graph, self._limit)
        return self._score_with_workers(sessions, session, graph, workers)

    def _score_with_workers(
        self, sessions: ClusterSessions, session: v1.Session, graph: EvalGraph, workers: list[str]
    ) -> dict[str, float]:
        assert graph.metric_sums is not None
        assignment = records.EvalAssignment(
            uuid.uuid4().hex,
            {task: 1 + n for n, task in enumerate(workers)},
            1 + len(workers),
            self._limit.examples,
            self._slices.field,
            list(self._slices.values),
            examples=self._graphs.source.count,
        )
        self._joined.stores[0].set(records.SCORING, assignment.to_json())
        began = time.monotonic()
        totals = [self._totals_of_shard(session, graph)]
        deadline = time.monotonic() + max(self._prepared.job.finish_timeout_secs, 2 * (time.monotonic() - began))
        for task, index in assignment.shares.items():
            if self._is_submitted(assignment, task, deadline):
                totals.append(session.run(graph.metric_sums.of_shard[index]))
            else:
                log.info("the chief scores the shard of %s too", task)
                totals.append(self._score_alone(sessions, DataShard(index, assignment.count)))
        session.run(graph.metric_sums.load, graph.metric_sums.feeds(totals))
        return metric_values(session, graph)

    def _score_alone(self, sessions: ClusterSessions, shard: DataShard) -> Totals:
        graph = self._graphs.build(shard, self._slices)
        assert graph is not None
        return self._totals_of_shard(sessions.open(graph.graph), graph)

    def _totals_of_shard(self, session: v1.Session, graph: EvalGraph) -> Totals:
        """Returns the metrics' totals of the graph's shard."""
        assert graph.metric_sums is not None
        run_batches(session, graph, self._limit)
        totals: Totals = session.run(graph.metric_sums.own)
        return totals

    def _waiting_workers(self) -> list[str]:
        """Returns the names of the other living workers that wait for the end."""
        statuses = task_statuses(self._joined.stores[0].items())
        own = str(self._prepared.task)
        return sorted(
            s.task
            for s in statuses
            if s.task != own and self._liveness.is_alive(s) and s.state in (TaskState.WAITING, TaskState.INPUT_ENDED)
        )

    def _is_submitted(self, assignment: records.EvalAssignment, task: str, deadline: float) -> bool:
        """Waits for the shard of a living task until the deadline; returns True if its sums are published."""
        result = ""

        def is_decided() -> bool:
            nonlocal result
            if self._joined.events.stop.is_set():
                return True
            items = self._joined.stores[0].items()
            result = items.get(records.eval_result_key(assignment.shares[task]), "")
            return result.endswith(assignment.token) or not any(
                status.task == task and self._liveness.is_alive(status) for status in task_statuses(items)
            )

        poll_until(is_decided, deadline, _POLL_SECS)
        return result == assignment.token
