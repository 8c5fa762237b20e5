"""Calls that hang are given up with their session; what they learn too late is learned by nobody."""

from __future__ import annotations

import contextlib
import pathlib
import threading
import time
from collections.abc import Callable

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster import abandonable as attempts
from ps_train.cluster.abandonable import run_abandonable, run_within
from ps_train.cluster.calls import LostConnectionError, LostInputError, Session, SessionGroup, abandonable
from ps_train.cluster.server import own_config, session_config
from ps_train.cluster.spec import Cluster
from ps_train.config.task import Task
from ps_train.training.input import Input
from ps_train.training.loop import LoopExit, TrainingLoop
from tests.support.cluster import InProcessCluster
from tests.support.loops import LoopSession, pace_for
from tests.support.models import Linear
from tests.support.processes import eventually
from tests.support.servers import POOL


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "GRACE_SECS", 0.2)


class Waiting:
    """A session whose call `wait` does not end before `end` is called."""

    def __init__(self) -> None:
        target = POOL.take(1)[0].target
        with tf.Graph().as_default() as graph:
            queue = tf.queue.FIFOQueue(10, tf.bool, [()], shared_name="tests/waiting")
            self._dequeue, self._enqueue = queue.dequeue(), queue.enqueue(True)
            self._nothing = tf.constant(1)
        self.group = SessionGroup()
        self.session = Session(target, graph, v1.ConfigProto(), self.group)
        self.group.add(self.session)
        self._other = POOL.session(target, graph, v1.ConfigProto())
        self.learned: list[bool] = []

    def wait(self) -> None:
        self.learned.append(bool(self.session.run(self._dequeue)))

    def pass_by(self) -> None:
        self.session.run(self._nothing)

    def end(self) -> None:
        self._other.run(self._enqueue)


def test_a_call_that_hangs_is_left_behind_when_the_attempt_has_ended_and_nobody_learns_what_it_returns() -> None:
    waiting = Waiting()
    with pytest.raises(LostConnectionError, match="a call hangs"):
        run_abandonable(waiting.wait, waiting.group, lambda: True)
    assert not waiting.group.is_idle()
    waiting.end()
    eventually(waiting.group.is_idle, 10, "the end of the call")
    assert waiting.learned == []


def test_a_call_may_take_as_long_as_it_likes_while_the_attempt_goes_on() -> None:
    waiting = Waiting()
    later = threading.Timer(1.0, waiting.end)
    later.start()
    run_abandonable(waiting.wait, waiting.group, lambda: False)
    assert waiting.learned == [True]


def test_calls_that_end_by_themselves_are_not_given_up() -> None:
    waiting, enough = Waiting(), time.monotonic() + 1.0

    def work() -> None:
        while time.monotonic() < enough:
            waiting.pass_by()
        waiting.learned.append(True)

    run_abandonable(work, waiting.group, lambda: True)
    assert waiting.learned == [True]


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


def test_what_an_attempt_raises_is_raised_where_it_is_waited_for() -> None:
    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_abandonable(fails, SessionGroup(), lambda: False)


def test_a_session_of_no_group_keeps_the_deadline_of_its_own() -> None:
    """As the sessions of heartbeats do."""
    target = POOL.take(1)[0].target
    with tf.Graph().as_default() as graph:
        never = tf.queue.FIFOQueue(10, tf.bool, [()], shared_name="tests/never").dequeue()
    session = Session(target, graph, v1.ConfigProto(operation_timeout_in_ms=500))
    began = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(never)
    assert time.monotonic() - began < 8


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


@pytest.mark.parametrize("is_hopeless", [lambda: False, lambda: True])
def test_work_with_a_deadline_is_left_behind_there_or_when_it_is_hopeless(is_hopeless: Callable[[], bool]) -> None:
    waiting, began = Waiting(), time.monotonic()
    with pytest.raises(TimeoutError):
        run_within(waiting.wait, 5.0 if is_hopeless() else 0.3, is_hopeless)
    assert time.monotonic() - began < 3
    waiting.end()


def test_who_waits_for_a_checkpoint_that_is_never_written_is_given_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = InProcessCluster(Linear(), 2, 1, tmp_path)
    cluster.start()
    assert cluster.snapshots is not None and cluster.checkpoints is not None
    silent = threading.Event()
    monkeypatch.setattr(cluster.checkpoints, "_write", lambda *_: silent.wait(60))
    task, group = Task("worker", 0), SessionGroup()
    config = session_config(Cluster.of(cluster.job), task, cluster.job)
    session = Session(cluster.targets[0], cluster.steps[0].graph, config, group)
    group.add(session)
    ended = threading.Event()

    def save() -> None:
        cluster.snapshots.start(session)
        ended.set()
        cluster.snapshots.wait(session)

    with pytest.raises(LostConnectionError):
        run_abandonable(save, group, ended.is_set)
    silent.set()


@pytest.mark.parametrize("where", ["_take", "_write"])
def test_a_thread_that_hangs_in_a_checkpoint_of_its_session_keeps_the_next_one_from_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    cluster = InProcessCluster(Linear(), 2, 1, tmp_path)
    cluster.start()
    assert cluster.snapshots is not None
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        hangs.set()
        goes_on.wait(60)

    with monkeypatch.context() as patch:
        patch.setattr(cluster.snapshots, where, hang)
        lost = threading.Thread(target=cluster.snapshots.start, args=[cluster.sessions[0]], daemon=True)
        lost.start()
        assert hangs.wait(20)
    cluster.open_again(0)
    cluster.snapshots.begin_session()
    assert not cluster.snapshots.busy
    cluster.train(3)
    saved: list[int] = []
    again = threading.Thread(target=lambda: saved.append(cluster.snapshots.save(cluster.sessions[0])), daemon=True)
    again.start()
    again.join(20)
    assert saved == [3]
    goes_on.set()
    lost.join(20)
    assert not lost.is_alive()


@pytest.mark.parametrize("fields", [{}, {"sharding": "dynamic"}], ids=["static", "dynamic"])
def test_input_goes_on_where_it_was_when_the_session_that_read_it_is_closed_while_it_reads_ahead(fields: dict) -> None:
    cluster = InProcessCluster(Linear(count=4096), 1, 1, batch_size=1, **fields)
    cluster.start()
    step, job, task = cluster.steps[0], cluster.job, Task("worker", 0)
    known = Cluster.of(job)
    source = Input(cluster.targets[0], own_config(known, task, job), step)
    source.begin(seed=3)
    labels = list(Linear(count=4096).data("train", "").labels)
    read: list[int] = []
    for _ in range(8):
        group = SessionGroup()
        session = Session(cluster.targets[0], step.graph, session_config(known, task, job), group)
        group.add(session)
        for _ in range(5):
            label = session.run(step.batches.labels)[0]
            read.append(labels.index(label))
        group.close()
        if fields:
            source.begin()  # nothing was given: the same batch of no examples again and again
    assert fields or read == list(range(len(read)))


class Blocked(Linear):
    """Its examples, the numbers from 0 on, come when they are let through."""

    def __init__(self, count: int) -> None:
        super().__init__(count, 1)
        self.gate = threading.Semaphore(0)

    def data(self, split: str, data_dir: str) -> tf.data.Dataset:
        def pass_gate(number: int) -> int:
            self.gate.acquire()
            return number

        def example(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            number = tf.ensure_shape(tf.numpy_function(pass_gate, [number], tf.int64), [])
            return tf.zeros([1]), tf.cast(number, tf.float32)

        return tf.data.Dataset.range(self.count).map(example)


@pytest.mark.parametrize(("update", "most", "why"), [("async", 100, LoopExit.INPUT), ("sync", 8, LoopExit.STEPS)])
def test_an_input_that_was_waited_for_in_a_call_that_was_cancelled_is_not_taken_for_one_that_has_ended(
    update: str, most: int, why: str
) -> None:
    model = Blocked(count=10)
    model.gate.release(1)  # for whoever looks at the data before
    cluster = InProcessCluster(model, 1, 1, batch_size=1, epochs=1, update=update, max_steps=most)
    cluster.sessions[0].run(cluster.steps[0].initialize)
    cluster.steps[0].local.prepare(cluster.sessions[0])
    step, job, task = cluster.steps[0], cluster.job, Task("worker", 0)
    known = Cluster.of(job)
    source = Input(cluster.targets[0], own_config(known, task, job), step)

    def loop_in(group: SessionGroup) -> Callable[[], str]:
        session = Session(cluster.targets[0], step.graph, session_config(known, task, job), group)
        group.add(session)
        return lambda: TrainingLoop("worker:0", step, pace_for(cluster), lambda: False, 0).run(LoopSession(session))

    source.begin()
    group = SessionGroup()
    with pytest.raises(LostConnectionError, match="a call hangs"):
        run_abandonable(loop_in(group), group, lambda: True)
    group.close()
    model.gate.release(1000)
    eventually(group.is_idle, 10, "the end of the call")
    before = cluster.global_step()  # the example that was let through may have been trained on
    assert before <= 1
    try:
        found, left = loop_in(SessionGroup())(), model.count - before
    except LostInputError:  # TensorFlow may have ended the input with the call: then it begins anew
        source.begin()
        before, left = cluster.global_step(), model.count
        found = loop_in(SessionGroup())()
    assert found == why
    assert cluster.global_step() == min(most, before + left)


def test_an_input_that_reports_its_cancellation_later_is_begun_anew() -> None:
    cluster = InProcessCluster(Linear(count=10), 1, 1)

    class Cancelled:
        def run(self, *_: object, **__: object) -> None:
            raise tf.errors.CancelledError(None, None, "Iterator was cancelled\n\t [[{{node IteratorGetNext}}]]")

    with pytest.raises(LostInputError):
        TrainingLoop("worker:0", cluster.steps[0], pace_for(cluster), lambda: False, 0).run(LoopSession(Cancelled()))
