"""The chief's wait for the others before its last checkpoint; tests/process/test_programs.py has it in a cluster."""

from __future__ import annotations

import dataclasses
import threading
import types

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership.presence import AbsenceLimits
from ps_train.cluster.membership.records import TaskState, new_task_status, task_key
from ps_train.compat.train import finish
from ps_train.compat.train.monitored_session import MonitoredTrainingSession
from ps_train.compat.train.server import ScriptCluster
from ps_train.compat.train.stop_at_step import StopAtStepHook

WORKERS = {"ps": {0: "a:1"}, "worker": {0: "b:1", 1: "c:1"}}
QUICK = AbsenceLimits(absent_secs=0.5, finish_secs=0.5)


class Board:
    """A ps's store with the record of worker:1, and the presence of worker:0, whose states are noted."""

    def __init__(self, state):
        self.state, self.changes, self.record, self.gone = TaskState.TRAINING, [], state, False

    def connected_store(self, index):
        return types.SimpleNamespace(items=self.items)

    def items(self):
        if self.record is None:
            return {}
        return {task_key("worker:1"): dataclasses.replace(new_task_status("worker:1"), state=self.record).to_json()}

    def is_gone(self, status):
        return self.gone

    def announce(self, state):
        self.state = state
        self.changes.append(state)


@pytest.fixture
def board_of(monkeypatch):
    """Returns a function that makes this process worker:0, with a state of worker:1."""

    def make(state, limits=QUICK):
        board = Board(state)
        task = types.SimpleNamespace(cluster=ScriptCluster(WORKERS, "worker", 0), limits=limits, presence=board)
        monkeypatch.setattr(finish, "current_task", lambda: task)
        return board

    return make


def train(directory, is_chief=True, hooks=(), at_end=None):
    """Makes 3 steps; returns the step of the last checkpoint."""
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        train_op = v1.assign_add(step, 1)
        with MonitoredTrainingSession("", is_chief, str(directory), hooks=list(hooks)) as session:
            for _ in range(3):
                session.run(train_op)
            if at_end is not None:
                at_end(lambda: session._tf_sess().run(train_op))
    path = tf.train.latest_checkpoint(str(directory))
    return path and int(path.rpartition("-")[2])


def test_the_last_checkpoint_has_the_updates_of_a_worker_that_ends_later(tmp_path, board_of):
    board = board_of(TaskState.TRAINING)

    def end_later(update):
        def work():
            for _ in range(4):
                update()
            board.record = TaskState.INPUT_ENDED

        threading.Timer(0.3, work).start()

    assert train(tmp_path, at_end=end_later) == 7


@pytest.mark.parametrize("state", [TaskState.TRAINING, None])
def test_a_worker_that_makes_no_step_or_never_comes_is_not_waited_for_longer(tmp_path, board_of, caplog, state):
    board_of(state)
    assert train(tmp_path) == 3
    assert ("no longer waiting for worker:1: no step in 0.5s" in caplog.text) == (state is not None)


@pytest.mark.parametrize("case", ["ended", "left", "gone", "last step"])
def test_there_is_no_wait_for_a_worker_that_has_ended_or_after_the_last_step(tmp_path, board_of, caplog, case):
    limits = AbsenceLimits(absent_secs=1000, finish_secs=1000)
    states = {"ended": TaskState.INPUT_ENDED, "left": TaskState.LEFT}
    board_of(states.get(case, TaskState.TRAINING), limits).gone = case == "gone"
    assert train(tmp_path, hooks=[StopAtStepHook(last_step=3)] if case == "last step" else []) == 3
    assert "waiting" not in caplog.text


def test_another_worker_tells_its_end_and_its_next_beginning(board_of):
    board = board_of(TaskState.TRAINING)
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        for _ in range(2):
            hook = finish.FinishHook(False, [])
            hook.begin()
            with v1.Session() as session:
                hook.after_create_session(session, None)
                hook.end(session)
    assert board.changes == [TaskState.INPUT_ENDED, TaskState.TRAINING, TaskState.INPUT_ENDED]
