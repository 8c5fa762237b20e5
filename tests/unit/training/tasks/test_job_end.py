from __future__ import annotations

import types

import pytest

from ps_train.base.errors import EXIT_DONE, JobFailedError
from ps_train.cluster.membership import records
from ps_train.cluster.membership.heartbeat import JobEnded
from ps_train.cluster.membership.records import Outcome, OutcomeKind, StopRequest
from ps_train.training.tasks.job_end import declare_outcome, exit_code, stop_job

DONE = Outcome(OutcomeKind.DONE, by="worker:0")
STOP = StopRequest("ps:1", 15)
FAILED = Outcome(OutcomeKind.FAILED, by="worker:1", cause="lost ps:1")


class Store:
    def __init__(self, outcome: Outcome | None = None) -> None:
        self.text = outcome.to_json() if outcome else ""

    def compare_and_set(self, key: str, expected: str, value: str) -> str:
        assert key == records.OUTCOME
        before, self.text = self.text, value if self.text == expected else self.text
        return before


class Heartbeat:
    """A heartbeat of some stores; those in `silent` do not answer."""

    def __init__(self, count: int, silent: tuple[int, ...] = ()) -> None:
        self._indices = [index for index in range(count) if index not in silent]
        self.is_leaving = False

    def on_each_ps(self, write):
        for index in self._indices:
            write(index)

    def announce_leaving(self):
        self.is_leaving = True


def joined_of(*stores: Store, silent: tuple[int, ...] = ()):
    return types.SimpleNamespace(stores=stores, heartbeat=Heartbeat(len(stores), silent))


def test_a_signal_stops_the_job_and_every_ps_knows_it():
    joined = joined_of(Store(), Store())
    assert stop_job(joined, STOP) == 128 + 15
    assert [Outcome.from_json(store.text).kind for store in joined.stores] == [OutcomeKind.STOPPED] * 2
    assert joined.heartbeat.is_leaving


def test_a_signal_that_comes_when_the_job_is_done_changes_nothing():
    """The chief ends with the code of all others, which have read that it is done."""
    joined = joined_of(Store(DONE), Store(DONE))
    assert stop_job(joined, STOP) == EXIT_DONE
    assert [Outcome.from_json(store.text) for store in joined.stores] == [DONE, DONE]
    assert joined.heartbeat.is_leaving


def test_the_first_outcome_stands_also_where_only_some_ps_have_it():
    assert declare_outcome(joined_of(Store(DONE), Store()), Outcome(OutcomeKind.STOPPED, "ps:1", 15)) == DONE
    assert declare_outcome(joined_of(Store(), Store(DONE)), Outcome(OutcomeKind.STOPPED, "ps:1", 15)) == DONE


def test_an_outcome_is_declared_although_a_ps_is_silent():
    failed = Outcome(OutcomeKind.FAILED, by="worker:1", cause="the loss is NaN")
    assert declare_outcome(joined_of(Store(), Store(), silent=(0,)), failed) == failed


def training_with(joined):
    hooks = types.SimpleNamespace(close=lambda session: None)
    prepared = types.SimpleNamespace(task="worker:0")
    return types.SimpleNamespace(prepared=prepared, joined=joined, model_hooks=hooks, session="session")


def test_a_task_passes_an_outcome_on_to_each_ps_that_its_author_did_not_reach():
    joined = joined_of(Store(FAILED), Store())
    with pytest.raises(JobFailedError, match="the job failed: worker:1: lost ps:1"):
        exit_code(JobEnded(FAILED), training_with(joined))
    assert [Outcome.from_json(store.text) for store in joined.stores] == [FAILED, FAILED]


def test_it_replaces_no_outcome():
    joined = joined_of(Store(FAILED), Store(DONE))
    with pytest.raises(JobFailedError):
        exit_code(JobEnded(FAILED), training_with(joined))
    assert [Outcome.from_json(store.text) for store in joined.stores] == [FAILED, DONE]
