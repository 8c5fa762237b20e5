"""The session manager in one process; tests/process/test_classic_jobs.py has it in clusters."""

from __future__ import annotations

import dataclasses
import time
import types

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.cluster.membership.presence import AbsenceLimits
from ps_train.cluster.membership.records import TaskState, new_task_status, task_key
from ps_train.compat.train import sessions
from ps_train.compat.train.server import ScriptCluster
from ps_train.compat.train.sessions import WAIT_SECS, Session, SessionManager


def prepared(directory, initial):
    """Prepares a session with a variable; returns its value and its local copy."""
    with tf.Graph().as_default():
        variable = v1.get_variable("w", [], initializer=tf.constant_initializer(initial))
        local = v1.Variable(0.0, collections=[v1.GraphKeys.LOCAL_VARIABLES])
        init, saver = v1.global_variables_initializer(), v1.train.Saver()
        manager = SessionManager(
            local_init_op=v1.group(v1.local_variables_initializer()),
            ready_op=v1.report_uninitialized_variables(),
            ready_for_local_init_op=v1.report_uninitialized_variables(v1.global_variables()),
        )
        with manager.prepare_session("", init, saver, str(directory)) as session:
            saver.save(session, str(directory / "model.ckpt"))
            return session.run([variable, local])


def test_a_model_is_initialized_and_then_restored(tmp_path):
    assert prepared(tmp_path, 3.0) == [3.0, 0.0]
    assert prepared(tmp_path, 4.0) == [3.0, 0.0]


def test_a_worker_looks_often_for_the_model():
    assert WAIT_SECS <= 1.0


def test_a_session_of_this_process_is_tensorflows():
    with tf.Graph().as_default(), Session() as session:
        assert session.run(tf.constant(3)) == 3


def test_a_model_on_a_server_is_not_restored_again(tmp_path):
    server = v1.train.Server.create_local_server()
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        init, saver = v1.global_variables_initializer(), v1.train.Saver()
        options = {
            "ready_op": v1.report_uninitialized_variables(),
            "local_init_op": v1.group(v1.local_variables_initializer()),
        }
        first = SessionManager(**options).prepare_session(server.target, init, saver, str(tmp_path))
        saver.save(first, str(tmp_path / "model.ckpt"))
        first.run(v1.assign_add(step, 7))
        second = SessionManager(**options).prepare_session(server.target, init, saver, str(tmp_path))
        assert second.run(step) == 7
        first.close(), second.close()
        v1.Session.reset(server.target)
        third = SessionManager(**options).prepare_session(server.target, init, saver, str(tmp_path))
        assert third.run(step) == 0
        third.close()


@pytest.fixture
def wait_with(monkeypatch):
    """Returns a function: worker:0 waits for a model, with the state of the chief."""
    monkeypatch.setattr(sessions, "LOOK_SECS", 0.2)
    monkeypatch.setattr(sessions, "session_config", lambda master, config, graph: config)

    def wait(state, max_wait_secs):
        status = None if state is None else dataclasses.replace(new_task_status("chief:0"), state=state)
        records = {} if status is None else {task_key("chief:0"): status.to_json()}
        store = types.SimpleNamespace(items=lambda: records)
        states = []
        presence = types.SimpleNamespace(connected_store=lambda index: store, announce=states.append)
        hosts = {"ps": {0: "a:1"}, "chief": {0: "b:1"}, "worker": {0: "c:1"}}
        cluster = ScriptCluster(hosts, "worker", 0)
        task = types.SimpleNamespace(target="grpc://c:1", cluster=cluster, presence=presence, limits=AbsenceLimits())
        monkeypatch.setattr(sessions, "current_task", lambda: task)
        with tf.Graph().as_default():
            v1.get_variable("w", [], initializer=v1.zeros_initializer())
            manager = SessionManager(ready_op=v1.report_uninitialized_variables(), recovery_wait_secs=0.05)
            try:
                manager.wait_for_session("", max_wait_secs=max_wait_secs)
            finally:
                assert states == [TaskState.PREPARING]

    return wait


@pytest.mark.parametrize(
    ("state", "told"), [(TaskState.LEFT, "chief:0 has ended"), (TaskState.PREPARING, "chief:0 waits too")]
)
def test_a_model_that_no_task_makes_is_not_waited_for(wait_with, state, told):
    with pytest.raises(ConfigError, match=f"worker:0 waits for a model that no task makes: {told}; .* --chief=master"):
        wait_with(state, 60.0)


@pytest.mark.parametrize("state", [None, TaskState.TRAINING, TaskState.FAILED])
def test_a_chief_that_may_come_is_waited_for(wait_with, state):
    began = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError):
        wait_with(state, 1.5)
    assert time.monotonic() - began > 1.2


def test_calls_that_a_task_refuses_are_made_again(tmp_path, monkeypatch):
    run, make_callable, refused = v1.Session.run, v1.Session.make_callable, []

    def refusing(call):
        def calling(*arguments, **options):
            if len(refused) % 3 < 2:
                refused.append(call)
                raise tf.errors.AbortedError(None, None, "The same RunGraph (Worker) request was received twice.")
            refused.append(None)
            return call(*arguments, **options)

        return calling

    with tf.Graph().as_default():
        count = v1.get_variable("count", [], initializer=tf.zeros_initializer())
        add, init, saver = v1.assign_add(count, 1.0), v1.global_variables_initializer(), v1.train.Saver()
        manager = SessionManager(ready_op=v1.report_uninitialized_variables())
        for session in (Session(), manager.prepare_session("", init, saver, str(tmp_path))):
            session.run(init)
            with monkeypatch.context() as patching:
                patching.setattr(v1.Session, "run", refusing(run))
                patching.setattr(v1.Session, "make_callable", lambda *given: refusing(make_callable(*given)))
                assert session.run(add) == 1.0
                session.make_callable(add)()  # as threads that fill queues
                assert session.run(count) == 2.0
            session.close()
    assert len(refused) == 2 * 9


def test_other_errors_of_a_call_are_raised(monkeypatch):
    def lost(*arguments, **options):
        raise tf.errors.AbortedError(None, None, "a ps was started again")

    with tf.Graph().as_default(), Session() as session:
        monkeypatch.setattr(v1.Session, "run", lost)
        with pytest.raises(tf.errors.AbortedError, match="started again"):
            session.run(tf.constant(1.0))
