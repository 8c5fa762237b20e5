"""An input outlives the session that reads it, and its cancellation is not its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import tensorflow as tf

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.sessions import abandonable as attempts
from ps_train.cluster.sessions.abandonable import run_abandonable
from ps_train.cluster.sessions.calls import LostConnectionError, LostInputError, RepeatingSession, SessionGroup
from ps_train.cluster.sessions.server import own_config, session_config
from ps_train.config.job import Task
from ps_train.training.loop.input import Input
from ps_train.training.loop.loop import LoopExit, TrainingLoop
from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.loops import LoopSession, pace_for
from tests.support.clusters.servers import POOL
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "GRACE_SECS", 0.2)


@pytest.mark.usual(1)
@pytest.mark.parametrize("fields", [{}, {"sharding": "dynamic"}], ids=["static", "dynamic"])
def test_input_goes_on_where_it_was_when_the_session_that_read_it_is_closed_while_it_reads_ahead(fields: dict) -> None:
    cluster = InProcessCluster(Linear(count=4096), 1, 1, batch_size=1, **fields)
    cluster.start()
    step, job, task = cluster.steps[0], cluster.job, Task("worker", 0)
    known = Cluster.of(job)
    source = Input(cluster.targets[0], own_config(known, task, job), step.worker.batches, step.worker.calls_begun)
    POOL.keep(source)
    source.begin(seed=3)
    labels = list(Linear(count=4096).data("train", "").labels)
    read: list[int] = []
    for _ in range(8):
        group = SessionGroup()
        session = RepeatingSession(cluster.targets[0], step.graph, session_config(known, task, job), group)
        group.add(session)
        for _ in range(5):
            label = session.run(step.worker.batches.labels)[0]
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
    model.gate.acquire(blocking=False)  # nobody may have looked
    cluster.sessions[0].run(cluster.steps[0].ps.initialize)
    cluster.steps[0].local.prepare(cluster.sessions[0])
    step, job, task = cluster.steps[0], cluster.job, Task("worker", 0)
    known = Cluster.of(job)
    source = Input(cluster.targets[0], own_config(known, task, job), step.worker.batches, step.worker.calls_begun)
    POOL.keep(source)

    def loop_in(group: SessionGroup) -> Callable[[], str]:
        session = RepeatingSession(cluster.targets[0], step.graph, session_config(known, task, job), group)
        group.add(session)
        return lambda: TrainingLoop("worker:0", step, pace_for(cluster), lambda: False, 0).run(LoopSession(session))

    source.begin()
    group = SessionGroup()
    with pytest.raises(LostConnectionError, match="a call hangs"):
        run_abandonable(loop_in(group), group, lambda: True)
    group.close()
    model.gate.release(1)  # one example only: the cancelled call cannot train on more, however late it ends
    eventually(group.is_idle, 10, "the end of the call")
    before = cluster.global_step()
    assert before <= 1
    model.gate.release(1000)
    try:
        found, left = loop_in(SessionGroup())(), model.count - before
    except LostInputError:  # TensorFlow may have ended the input with the call: then it begins anew
        source.begin()
        before, left = cluster.global_step(), model.count
        found = loop_in(SessionGroup())()
    assert found == why
    # The cancelled call may have read the one example, and have been cancelled before it trained on it.
    assert cluster.global_step() in {min(most, before + left - lost) for lost in (0, 1 - before)}


@pytest.mark.parametrize("error", [tf.errors.CancelledError, tf.errors.AbortedError])
def test_an_input_that_reports_its_cancellation_later_is_begun_anew(error: type[tf.errors.OpError]) -> None:
    cluster = InProcessCluster(Linear(count=10), 1, 1)

    class Cancelled:
        def run(self, *_: object, **__: object) -> None:
            raise error(None, None, "Iterator was cancelled\n\t [[{{node IteratorGetNext}}]]")

    with pytest.raises(LostInputError):
        TrainingLoop("worker:0", cluster.steps[0], pace_for(cluster), lambda: False, 0).run(LoopSession(Cancelled()))
