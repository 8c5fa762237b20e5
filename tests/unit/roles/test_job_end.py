from __future__ import annotations

import types

import pytest

from ps_train.coordination import records
from ps_train.coordination.heartbeat import JobEnded
from ps_train.coordination.records import Outcome, OutcomeKind
from ps_train.errors import JobFailedError
from ps_train.roles.job_end import exit_code


class Store(dict):
    def compare_and_set(self, key, expected, value):
        before = self.get(key, "")
        if before == expected:
            self[key] = value
        return before


def training_with(stores):
    closed = []
    heartbeat = types.SimpleNamespace(
        on_each_ps=lambda write: [write(index) for index in range(len(stores))], announce_leaving=lambda: None
    )
    context = types.SimpleNamespace(stores=stores, heartbeat=heartbeat, task="worker:0")
    hooks = types.SimpleNamespace(close=closed.append)
    return types.SimpleNamespace(context=context, model_hooks=hooks, session="session")


FAILED = Outcome(OutcomeKind.FAILED, by="worker:1", cause="lost ps:1")


def test_a_task_passes_an_outcome_on_to_each_ps_that_its_author_did_not_reach():
    stores = [Store({records.OUTCOME: FAILED.to_json()}), Store()]
    with pytest.raises(JobFailedError, match="the job failed: worker:1: lost ps:1"):
        exit_code(JobEnded(FAILED), training_with(stores))
    assert [Outcome.from_json(store[records.OUTCOME]) for store in stores] == [FAILED, FAILED]


def test_it_replaces_no_outcome():
    other = Outcome(OutcomeKind.DONE, by="worker:0").to_json()
    stores = [Store({records.OUTCOME: FAILED.to_json()}), Store({records.OUTCOME: other})]
    with pytest.raises(JobFailedError):
        exit_code(JobEnded(FAILED), training_with(stores))
    assert stores[1][records.OUTCOME] == other
