"""Sessions whose calls have a deadline, or are abandoned with their group."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.user_code import operations_of
from ps_train.cluster.sessions import abandonable as attempts
from ps_train.cluster.sessions.abandonable import run_abandonable
from ps_train.cluster.sessions.calls import (
    AbandonedCallError,
    Fetches,
    LostConnectionError,
    RepeatingSession,
    SessionGroup,
    abandonable,
)
from tests.support.clusters.servers import POOL
from tests.support.clusters.waiting import Waiting
from tests.support.machine.processes import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "GRACE_SECS", 0.2)


def test_to_close_the_sessions_cancels_a_call_and_refuses_those_of_other_threads_as_if_a_ps_were_lost() -> None:
    waiting = Waiting()
    waiting.pass_by()
    with pytest.raises(LostConnectionError):
        run_abandonable(waiting.wait, waiting.group, lambda: True)
    waiting.group.close()
    eventually(waiting.group.is_idle, 10, "the end of the call")
    with pytest.raises(tf.errors.AbortedError, match="abandoned"):
        waiting.session.run(waiting._nothing)
    assert waiting.learned == []


def test_an_abandoned_call_hangs_up_on_all_that_are_connected_to_this_task() -> None:
    """TensorFlow may have forgotten a part of the call, which then waits on a ps for this task without end."""
    waiting = Waiting()
    waiting.pass_by()
    address = urlsplit(waiting.session.sess_str.decode())
    with socket.create_connection((address.hostname, address.port), timeout=10) as ps:
        with pytest.raises(LostConnectionError):
            run_abandonable(waiting.wait, waiting.group, lambda: True)
        waiting.group.close()
        eventually(waiting.group.is_idle, 10, "the end of the call")
        while ps.recv(4096):
            pass


def test_a_session_of_no_group_keeps_the_deadline_of_its_own() -> None:
    """As the sessions of heartbeats do."""
    target = POOL.take(1)[0].target
    with tf.Graph().as_default() as graph:
        never = tf.queue.FIFOQueue(10, tf.bool, [()], shared_name="tests/never").dequeue()
    session = RepeatingSession(target, graph, v1.ConfigProto(operation_timeout_in_ms=500))
    began = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(never)
    assert time.monotonic() - began < 8


def test_a_call_that_tensorflow_ends_at_its_deadline_leaves_the_session_to_others(monkeypatch) -> None:
    """Its deadline does not cover the time in which it prepares the graph, here 0.5 s."""
    held, outcomes = Waiting(), []

    def run(*_: object) -> None:
        time.sleep(0.5)
        raise tf.errors.DeadlineExceededError(None, None, "the deadline")

    def ask() -> None:
        with pytest.raises(tf.errors.OpError) as raised:
            held.session.run(None, options=v1.RunOptions(timeout_in_ms=100))
        outcomes.append(type(raised.value).__name__)

    def train() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(v1.Session, "run", run)
            asking = threading.Thread(target=ask, daemon=True)
            asking.start()
            with abandonable(held.session):  # as in a call of the owner
                asking.join(30)

    run_abandonable(train, held.group, lambda: False)
    assert outcomes == ["DeadlineExceededError"]
    held.end()


def test_a_call_that_is_overdue_is_given_up_with_its_session_whichever_thread_makes_it() -> None:
    held, other_held = Waiting(), threading.Event()

    def hold() -> None:
        with contextlib.suppress(tf.errors.AbortedError), abandonable(held.session, 0.3):
            other_held.wait(30)

    def train() -> None:
        threading.Thread(target=hold, daemon=True).start()
        held.wait()

    began = time.monotonic()
    with pytest.raises(LostConnectionError, match="a call hangs"):
        run_abandonable(train, held.group, lambda: False)
    assert 0.3 <= time.monotonic() - began < 10
    other_held.set()
    held.end()


def test_an_awaited_tensor_that_was_cancelled_means_a_lost_task(monkeypatch) -> None:
    """TensorFlow may report it in place of the connection's error."""

    def run(*_: object) -> None:
        raise tf.errors.CancelledError(None, None, "RecvFromRemoteAsync is cancelled.\n\t [[{{node concat_6_S13}}]]")

    session = RepeatingSession(POOL.take(1)[0].target, tf.Graph(), v1.ConfigProto())
    monkeypatch.setattr(v1.Session, "run", run)
    with pytest.raises(tf.errors.AbortedError, match="RecvFromRemoteAsync"):
        session.run(None)


def test_a_session_tells_while_a_call_of_new_fetches_or_feeds_is_prepared_and_made() -> None:
    target = POOL.take(1)[0].target
    entered, go_on = threading.Event(), threading.Event()

    def wait() -> bool:
        entered.set()
        return go_on.wait(30)

    with tf.Graph().as_default() as graph:
        fed = v1.placeholder_with_default(1, [])
        more, slow = fed + 1, tf.numpy_function(wait, [], tf.bool)
    session = RepeatingSession(target, graph, v1.ConfigProto())

    def is_preparing_during(*arguments: object) -> bool:
        entered.clear()
        go_on.clear()
        call = threading.Thread(target=session.run, args=arguments, daemon=True)
        call.start()
        assert entered.wait(30)
        seen = session.is_preparing
        go_on.set()
        call.join(30)
        assert not session.is_preparing
        return seen

    calls = [([slow],), ({object(): slow},), ([slow, more],), ([slow, more], {fed: 2}), ([slow, more], {fed: 3})]
    assert [is_preparing_during(*call) for call in calls] == [True, False, True, True, False]
    with pytest.raises(ValueError):
        session.run(more, {fed: [1, 2]})
    assert not session.is_preparing


def test_a_session_beside_another_one_shares_its_variables_tells_what_it_prepares_and_is_closed_with_it() -> None:
    target, group = POOL.take(1)[0].target, SessionGroup()
    entered, go_on = threading.Event(), threading.Event()
    with tf.Graph().as_default() as graph:
        variable = tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[], shared_name="beside")
        assigned = tf.raw_ops.AssignVariableOp(resource=variable, value=3)
    with tf.Graph().as_default() as other:
        same = tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[], shared_name="beside")
        value = tf.raw_ops.ReadVariableOp(resource=same, dtype=tf.int32)
        slow = tf.numpy_function(lambda: (entered.set(), go_on.wait(30))[1], [], tf.bool)
    session = RepeatingSession(target, graph, v1.ConfigProto(), group)
    group.add(session)
    session.run(assigned)
    beside = session.beside(other)
    assert beside.run(value) == 3 and not session.is_preparing
    assert session.beside(other) is beside and session.beside(graph) is session
    call = threading.Thread(target=beside.run, args=[slow], daemon=True)
    call.start()
    assert entered.wait(30) and session.is_preparing
    go_on.set()
    call.join(30)
    assert not session.is_preparing
    group.close()
    with pytest.raises(AbandonedCallError):
        beside.run(value)


@pytest.mark.parametrize("operations, left", [(2_000, 0), (2_001, 2)])
def test_a_large_graph_is_run_as_it_is(operations: int, left: int) -> None:
    with tf.Graph().as_default() as graph:
        given = v1.placeholder(tf.float32, [2, 3])
        same = tf.identity(tf.transpose(tf.transpose(given)))  # what TensorFlow's optimizer leaves out
        while len(graph.get_operations()) < operations:
            tf.no_op()
    metadata, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
    with RepeatingSession("", graph, v1.ConfigProto()) as session:
        session.run(same, {given: [[1, 2, 3], [4, 5, 6]]}, options=options, run_metadata=metadata)
    assert sum(node.op.endswith("Transpose") for part in metadata.partition_graphs for node in part.node) == left


def test_fetches_that_are_kept_are_looked_through_once_in_each_session_and_give_what_others_give() -> None:
    target = POOL.take(1)[0].target
    with tf.Graph().as_default() as graph:
        count = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name="tests/kept")
        begin = tf.raw_ops.AssignVariableOp(resource=count, value=tf.constant(0, tf.int64))
        add = tf.raw_ops.AssignAddVariableOp(resource=count, value=tf.constant(2, tf.int64))
        with tf.control_dependencies([add]):
            value = tf.raw_ops.ReadVariableOp(resource=count, dtype=tf.int64)
    sessions = [RepeatingSession(target, graph, v1.ConfigProto()) for _ in range(2)]
    looks = []
    for session in sessions:
        make = session.make_callable
        session.make_callable = lambda fetches, make=make, **given: looks.append(fetches) or make(fetches, **given)
    sessions[0].run(begin)
    kept, alike = (
        Fetches({"train": [add], "told": {"value": value}}),
        Fetches({"train": [add], "told": {"value": value}}),
    )
    assert [sessions[0].run(kept)["told"] for _ in range(3)] == [{"value": 2}, {"value": 4}, {"value": 6}]
    assert sessions[1].run(kept) == {"train": [None], "told": {"value": 8}}
    assert sessions[1].run(dict(kept)) == {"train": [None], "told": {"value": 10}}
    assert looks == [dict(kept), dict(kept)]
    with graph.as_default():
        more = Fetches({"told": value + 1})  # the graph has grown
    assert sessions[0].run(more) == {"told": 13} and sessions[0].run(alike)["told"] == {"value": 14}
    found = v1.RunMetadata()
    sessions[0].run(kept, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=found)
    assert found.step_stats.dev_stats


def test_errors_of_fetches_that_are_kept_are_those_of_others() -> None:
    target = POOL.take(1)[0].target
    with tf.Graph().as_default() as graph:
        given = v1.placeholder_with_default(tf.constant([1]), [None])
        row = tf.gather(tf.constant([1.0, 2.0]), given + 7, name="mine")
        never = tf.queue.FIFOQueue(10, tf.bool, [()], shared_name="tests/never").dequeue()
    session = RepeatingSession(target, graph, v1.ConfigProto(operation_timeout_in_ms=500))
    kept = Fetches({"row": row})
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="mine") as caught:
            session.run(kept)
        assert [op.name for op in operations_of(caught.value)][:1] == ["mine"]
    assert session.run(kept, {given: [-7]})["row"] == 1.0  # given values are those of this call
    always = Fetches({"row": row}, feeds={given: [-6]})
    assert session.run(always)["row"] == 2.0 and session.run(always, {given: [-7]})["row"] == 1.0
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(Fetches({"never": never}))
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(kept)
