"""What is slow shows up in its part of a real step: input, computation, update, another worker, a message."""

from __future__ import annotations

import functools
import threading
import time

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import Fetches
from ps_train.cluster.sessions.ps_clocks import PsClocks
from ps_train.observe.profile.step_record import StepRecord
from ps_train.observe.profile.step_tracer import StepTracer
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.clusters.servers import POOL
from tests.support.long import long
from tests.support.models.small import Linear
from tests.support.models.tables import Bags

DELAY = 0.25
ASYNC, SYNC, BOUNDED = {"update": "async"}, {"update": "sync"}, {"update": "bounded", "max_steps_ahead": 1}
every_mode = pytest.mark.parametrize("mode", [long(ASYNC), SYNC, long(BOUNDED)], ids=lambda mode: mode["update"])


def late(value: tf.Tensor, secs: float = DELAY) -> tf.Tensor:
    def wait(given):
        time.sleep(secs)
        return given

    return tf.ensure_shape(tf.numpy_function(wait, [value], value.dtype), value.shape)


class SlowInput(Linear):
    """A batch of four takes twice the delay, because some of it is read while other parts of a step go on."""

    def data(self, split, data_dir):
        found = super().data(split, data_dir)
        data = tf.data.Dataset.from_tensor_slices((found.features, found.labels))
        return data.map(lambda x, y: (late(x, DELAY / 2), y))


class SlowLoss(Linear):
    def loss(self, outputs, labels):
        return super().loss(outputs + tf.stop_gradient(late(outputs) * 0), labels)


class SlowOptimizer(v1.train.GradientDescentOptimizer):
    def _resource_apply_dense(self, grad, handle):
        return super()._resource_apply_dense(late(grad), handle)


class SlowUpdate(Linear):
    def optimizer(self, name, learning_rate):
        return SlowOptimizer(learning_rate)


class Wide(Linear):
    """Many bytes to pull and push, and little to compute."""

    def __init__(self) -> None:
        super().__init__(count=16, width=3)

    def forward(self, features, training):
        wide = v1.get_variable("wide", [4 << 20], initializer=v1.zeros_initializer())
        return super().forward(features, training) + tf.reduce_sum(wide)


def cluster_of(model, mode, workers=1, num_ps=2, run=1, **fields):
    fields = {"optimizer": "sgd", "learning_rate": 1e-6, "batch_size": 4, "steps_per_run": str(run), **mode, **fields}
    cluster = InProcessCluster(model, num_ps, workers, partition_bytes=8, **fields)
    cluster.start()
    return cluster


def clocks_of(cluster):
    return PsClocks(lambda: [f"grpc://{host}" for host in cluster.job.ps_hosts])


def recorded(cluster, index=0, run=1, calls=2, before=None):
    """The record of some calls of a worker, each after two that are not traced."""
    found = []
    steps = calls * run
    tracer = StepTracer(f"worker:{index}", clocks_of(cluster), 2 * run, steps, lambda *a: found.append(a))
    traced = tracer.begin(0)(functools.partial(cluster.sessions[index].run, options=v1.RunOptions()))
    for _ in range(2 + calls):
        if before is not None:
            before()
        fetches = cluster.steps[index].steps_per_call(run)
        traced(Fetches({**fetches, "examples": [cluster.steps[index].worker.examples] * run}, run))
    ((made, secs),) = found
    return StepRecord.of(f"worker:{index}", made, clocks_of(cluster).compare(), secs)


def heaviest(record):
    parts = record.parts()
    return max((part for part in parts if part not in ("step", "tracing")), key=lambda part: parts[part])


@every_mode
@pytest.mark.parametrize(
    ("model", "part"),
    [(SlowInput(), "input"), (SlowLoss(), "compute"), (SlowUpdate(), "update")],
    ids=["input", "compute", "update"],
)
@pytest.mark.usual(1)
def test_what_is_slow_is_the_longest_part(mode, model, part):
    record = recorded(cluster_of(model, mode))
    parts = record.parts()
    assert heaviest(record) == part, parts
    assert parts[part] >= 0.7 * DELAY
    assert sum(record.parts()[name] for name in parts if name not in ("step", "tracing")) == pytest.approx(
        parts["step"]
    )


@pytest.mark.long
@pytest.mark.parametrize("mode", [SYNC, long({"update": "bounded", "max_steps_ahead": 0})], ids=str)
def test_a_slow_worker_is_waiting_for_the_other(mode):
    cluster = cluster_of(Linear(count=120), mode, workers=2)
    found = []

    def slow():
        for _ in range(4):
            time.sleep(2 * DELAY)
            cluster.sessions[1].run(cluster.steps[1].steps_per_call(1))

    in_parallel([lambda: found.append(recorded(cluster)), slow])
    assert heaviest(found[0]) == "wait", found[0].parts()
    assert found[0].parts()["wait"] >= 0.5 * DELAY


@pytest.mark.parametrize("num_ps", [1, long(2)])
def test_a_busy_ps_is_waiting_under_async(num_ps):
    """Another task holds the lock of the first ps."""
    cluster = cluster_of(Linear(), ASYNC, num_ps=num_ps, workers=2)
    other = cluster_of_holder(cluster)
    record = recorded(cluster, before=other)
    assert heaviest(record) == "wait", record.parts()


def cluster_of_holder(cluster):
    """Returns a function that holds the mutex of ps 0 from now on for a moment."""
    with tf.Graph().as_default() as graph:
        mutex = tf.raw_ops.MutexV2(shared_name="ps_train_lock/ps0")
        lock = tf.raw_ops.MutexLock(mutex=mutex)
        with tf.control_dependencies([lock]):
            held = late(tf.constant(1.0), 2 * DELAY)
        with tf.control_dependencies([held]):
            release = tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
    session = POOL.session(f"grpc://{cluster.job.ps_hosts[0]}", graph, v1.ConfigProto())

    def hold():
        threading.Thread(target=session.run, args=[release], daemon=True).start()
        time.sleep(DELAY / 2)

    return hold


def test_large_messages_are_pull_and_push():
    record = recorded(cluster_of(Wide(), ASYNC, num_ps=1))
    parts = record.parts()
    assert parts["pull"] + parts["push"] > 0.004, f"16 MiB each way: {parts}"


@pytest.mark.long
@every_mode
def test_a_call_of_several_steps_is_several_times_one(mode):
    cluster = cluster_of(SlowLoss(), mode, run=3)
    for _ in range(5):  # a busy machine may make a step longer than it is
        record = recorded(cluster, run=3, calls=1)
        assert record.steps == 3
        assert record.parts()["compute"] > 0.9 * DELAY
        if record.parts()["compute"] < 1.5 * DELAY:
            break
    assert record.parts()["compute"] < 1.5 * DELAY
    assert sum(span.op == "MutexLock" for span in record.spans) >= 3 * 2, "on each ps"


def test_values_pulled_ahead_do_not_count_while_the_worker_computes():
    cluster = cluster_of(SlowLoss(), ASYNC, run=3, prefetch_pulls=1)
    parts = recorded(cluster, run=3, calls=1).parts()
    assert parts["compute"] >= 0.9 * DELAY
    assert parts["pull"] < parts["compute"] / 2


@pytest.mark.long
def test_rows_of_tables_are_pulled_and_updated():
    cluster = cluster_of(Bags(), ASYNC, optimizer="adagrad", learning_rate=0.1)
    for _ in range(20):  # TensorFlow leaves messages out of its record on a busy machine
        record = recorded(cluster, calls=1)
        asked = [s for s in record.spans if s.source == "worker:0" and s.part == "pull"]
        pushed = [s for s in record.spans if s.source == "worker:0" and s.part == "push"]
        if asked and pushed:
            break
    assert asked
    assert pushed
    assert max(s.begin for s in asked) <= min(s.begin for s in pushed)
    written = [s for s in record.spans if s.op.startswith("ResourceScatter")]  # rows and their slots
    assert {(s.task.partition(":")[0], s.part) for s in written} == {("ps", "update")}


@pytest.mark.long
def test_no_message_arrives_before_it_was_sent():
    record = recorded(cluster_of(Linear(), SYNC), calls=4)
    ends = {}
    for span in record.spans:
        if not span.source:
            ends.setdefault((span.task, span.name), []).append(span.end)
    messages = [span for span in record.spans if span.source]
    sent = [(min(ends[s.source, s.name]), s.end) for s in messages if (s.source, s.name) in ends]
    assert len(sent) >= len(messages) >= 8
    assert all(end + 2 * record.clock.uncertainty >= begin for begin, end in sent)
