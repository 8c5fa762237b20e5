"""Several steps in one call are the same steps."""

from __future__ import annotations

import collections
import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.modeling.model import Model, make_optimizer
from ps_train.training.loop.loop import LoopExit
from tests.cluster.engine.transport.test_vocabulary import passing
from tests.cluster.engine.updates.modes.test_bounded import Recorded
from tests.cluster.test_modes import MODES, every_mode
from tests.support.clusters.cluster import InProcessCluster, batches_of, in_parallel, train_plainly
from tests.support.clusters.loops import pace_for, run_worker
from tests.support.long import long
from tests.support.models.small import Linear
from tests.support.models.tables import Bags
from tests.support.models.vocabularies import Visits

RUN = 5
every_mode_of_one = pytest.mark.parametrize(
    "mode",
    [long(m) if m.get("max_steps_ahead") == 0 else m for m in MODES.values() if "backup_workers" not in m],
    ids=str,
)
one_or_two_ps = pytest.mark.parametrize("num_ps", [long(1), 2])


def cluster_of(model: Model, num_ps: int, workers: int, run: int = RUN, **fields) -> InProcessCluster:
    settings = {"optimizer": "adam", "learning_rate": 0.05, "batch_size": 4, "steps_per_run": str(run), **fields}
    cluster = InProcessCluster(model, num_ps, workers, partition_bytes=8, **settings)
    cluster.start()
    return cluster


@every_mode_of_one
@one_or_two_ps
@pytest.mark.usual(1)
def test_a_worker_alone_equals_a_plain_session_that_makes_one_step_after_the_other(mode: dict, num_ps: int) -> None:
    model = Linear(count=120, width=5)
    cluster = cluster_of(model, num_ps, 1, **mode)
    initial = cluster.values()
    cluster.train(20, run=RUN)
    plain = train_plainly(model, lambda: make_optimizer("adam", 0.05), initial, batches_of(model, 4, 20))
    found = cluster.values()
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6, rtol=1e-6, err_msg=name)
    assert cluster.global_step() == 20
    assert cluster.read("ps_train/staleness")[0, 1:].sum() == 0, "a step pulls what the one before it pushed"


@pytest.mark.long
@one_or_two_ps
@pytest.mark.parametrize(
    "model",
    [Linear(count=120, width=5), long(Bags()), long(Visits(passing(), capacity=8))],
    ids=["dense", "tables", "open"],
)
def test_synchronous_calls_of_several_steps_are_bit_equal_to_single_steps(model: Linear, num_ps: int) -> None:
    values = []
    for run in (1, RUN):
        cluster = cluster_of(model, num_ps, 2, run, update="sync", optimizer="adagrad")
        cluster.train(20, run=run)
        values.append(cluster.values())
    for name, value in values[0].items():
        np.testing.assert_array_equal(values[1][name], value, err_msg=name)


@pytest.mark.long
@every_mode
@one_or_two_ps
@pytest.mark.parametrize("run", ["3", long("auto")])
def test_the_global_step_is_exactly_max_steps(mode: dict, num_ps: int, run: str) -> None:
    cluster = cluster_of(Linear(count=120, width=5), num_ps, 3, run, max_steps=101, **mode)
    pace, why = pace_for(cluster), {}

    def work(index: int) -> None:
        why[index] = run_worker(cluster, index, pace, lambda: False)

    in_parallel([lambda index=index: work(index) for index in range(3)])
    assert why == {0: LoopExit.STEPS, 1: LoopExit.STEPS, 2: LoopExit.STEPS}
    assert cluster.global_step() == 101


@every_mode_of_one
@pytest.mark.usual(1)
def test_input_that_ends_within_a_call_is_used_to_its_end_and_steps_not_made_are_given_back(mode: dict) -> None:
    model = Linear(count=46)
    cluster = cluster_of(model, 1, 1, 4, epochs=3, max_steps=1000, **mode)
    pace = pace_for(cluster)
    before = pace.take(1000, 0)
    pace.give_back(before)
    assert run_worker(cluster, 0, pace, lambda: False) == LoopExit.INPUT
    assert cluster.values()["ps_train/examples"] == 3 * 46
    made = cluster.global_step()
    assert made == -(-3 * 46 // 4)
    if not cluster.steps[0].lockstep:
        assert pace.take(1000, made) == 1000 - made


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize("lead", [long(0), 2])
def test_the_bound_holds_within_calls(num_ps: int, lead: int) -> None:
    model = Recorded()
    cluster = cluster_of(
        model, num_ps, 3, 4, update="bounded", max_steps_ahead=lead, optimizer="sgd", learning_rate=0.01
    )

    def work(index: int) -> None:
        for _ in range(5):
            cluster.sessions[index].run(cluster.steps[index].steps_per_call(4))
        cluster.dismiss(index, by=index)

    in_parallel([lambda index=index: work(index) for index in range(3)])
    order = sorted((at, index) for index, times in enumerate(model.computed) for at in times)
    made, largest = collections.Counter({0: 0, 1: 0, 2: 0}), 0
    for _, index in order:
        largest = max(largest, made[index] - min(made.values()))
        made[index] += 1
    assert largest == lead
    assert cluster.global_step() == 3 * 20


def crossings(cluster: InProcessCluster, run: int) -> collections.Counter[tuple[str, str]]:
    metadata, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
    fetches = cluster.steps[0].steps_per_call(run)["train"]
    cluster.sessions[0].run(fetches, options=options, run_metadata=metadata)
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for graph in metadata.partition_graphs:
        for node in graph.node:
            if node.op == "_Send":
                ends = tuple("/".join(node.attr[name].s.decode().split("/")[1:4:2]) for name in _ENDS)
                found[ends] += ends[0] != ends[1]
    return +found


_ENDS = ("send_device", "recv_device")


@pytest.mark.long
@every_mode_of_one
@one_or_two_ps
def test_a_step_within_a_call_sends_what_it_sends_alone(mode: dict, num_ps: int) -> None:
    cluster = cluster_of(Linear(count=120, width=5), num_ps, 1, **mode)
    alone = crossings(cluster, 1)
    assert sum(alone.values()) >= 2
    expected = {ends: RUN * count for ends, count in alone.items()}
    if mode["update"] == "bounded" and num_ps == 2:  # nobody pulls from the second ps before his turn on the first
        expected["job:ps/task:0", "job:ps/task:1"] = RUN - 1
    assert crossings(cluster, RUN) == expected


class Forgetful(Linear):
    """Half of the features are dropped, and what was dropped is written down."""

    def __init__(self) -> None:
        super().__init__(count=64, width=16)
        self.seen: list[bytes] = []

    def forward(self, features, training):
        dropped = tf.nn.dropout(tf.ones([16]), rate=0.5)

        def note(values):
            self.seen.append((values > 0).tobytes())
            return values

        return super().forward(features * tf.ensure_shape(tf.numpy_function(note, [dropped], tf.float32), [16]), True)


def test_every_step_of_a_call_draws_random_numbers_of_its_own() -> None:
    model = Forgetful()
    cluster = cluster_of(model, 1, 1)
    model.seen.clear()
    cluster.train(20, run=RUN)
    assert len(model.seen) == 20 and len(set(model.seen)) == 20


class Recurrent(Linear):
    """A loop and a condition, as TensorFlow 1 builds them."""

    def forward(self, features, training):
        w = v1.get_variable("w", [self.width, self.width])
        v = v1.get_variable("v", [self.width, 1])

        def body(number, state):
            return number + 1, tf.tanh(features + state @ w)

        _, state = v1.while_loop(lambda number, _: number < 3, body, [0, tf.zeros_like(features)])
        state = v1.cond(tf.reduce_sum(features) > 0, lambda: state * 1.5, lambda: state)
        return tf.squeeze(state @ v, 1)


@pytest.mark.long
def test_loops_and_conditions_of_the_model_are_those_of_each_step() -> None:
    model = Recurrent(count=120, width=5)
    cluster = cluster_of(model, 1, 1)
    initial = cluster.values()
    cluster.train(20, run=RUN)
    plain = train_plainly(model, lambda: make_optimizer("adam", 0.05), initial, batches_of(model, 4, 20))
    for name, value in plain.items():
        np.testing.assert_allclose(cluster.values()[name], value, atol=1e-5, err_msg=name)


class Numbered(Linear):
    """Notes which examples come in which order."""

    def __init__(self) -> None:
        super().__init__(count=400)
        self.order: list[int] = []

    def data(self, split, data_dir):
        return Arrays(np.arange(400, dtype=np.float32)[:, np.newaxis] * np.ones([1, 3], np.float32), np.zeros(400, "f"))

    def forward(self, features, training):
        def note(values, _):  # not before the step's own pull: all batches of a run are read at once
            self.order.extend(values[:, 0].astype(int).tolist())
            return values

        pulled = v1.get_variable("after", [])
        noted = tf.ensure_shape(tf.numpy_function(note, [features, pulled], tf.float32), features.shape)
        return super().forward(noted * 0.0, training) + pulled * 0.0


def test_batches_are_taken_in_order() -> None:
    model = Numbered()
    cluster = cluster_of(model, 1, 1, learning_rate=1e-6)
    model.order.clear()
    cluster.train(50, run=RUN)
    assert model.order == list(range(200))


@pytest.mark.long
def test_values_that_are_pulled_ahead_are_older_by_one_step_at_most_and_counted_as_such() -> None:
    model = Linear(count=120, width=5)
    cluster = cluster_of(model, 1, 1, optimizer="sgd", learning_rate=0.01, prefetch_pulls=1)
    initial = cluster.values()
    cluster.train(200, run=RUN)
    counted = cluster.read("ps_train/staleness")[0]
    # The first two steps of a run pull together, and one of the two is applied after the other.
    assert counted[1] >= 200 // RUN and counted[:2].sum() == 200
    plain = train_plainly(model, lambda: make_optimizer("sgd", 0.01), initial, batches_of(model, 4, 200))
    np.testing.assert_allclose(cluster.values()["w"], plain["w"], atol=0.05)
    assert np.abs(cluster.values()["w"] - initial["w"]).max() > 0.5, "it has learned at all"


@pytest.mark.long
def test_a_replica_that_is_removed_within_a_call_goes_on_and_does_not_hold_the_others_back() -> None:
    cluster = cluster_of(Linear(count=120), 1, 2, update="sync", max_steps=1000)
    alone = threading.Thread(target=lambda: cluster.sessions[0].run(cluster.steps[0].steps_per_call(RUN)), daemon=True)
    alone.start()
    cluster.dismiss(1)
    alone.join(20)
    assert not alone.is_alive() and cluster.global_step() == RUN


@pytest.mark.long
@every_mode_of_one
@one_or_two_ps
def test_steps_are_copied_when_a_longer_call_is_first_made_in_a_session_that_trains(mode: dict, num_ps: int) -> None:
    values = []
    for lengths in ((1,) * 8, (1, 1, 3, 1, 2)):
        cluster = cluster_of(Linear(count=120, width=5), num_ps, 1, **mode)
        graph, step = cluster.steps[0].graph, cluster.steps[0]
        graph.finalize()
        before = len(graph.get_operations())
        for number, length in enumerate(lengths):
            cluster.sessions[0].run(step.steps_per_call(length))
            assert graph.finalized
            assert (len(graph.get_operations()) > before) == (max(lengths[: number + 1]) > 1)
        values.append(cluster.values())
        assert cluster.global_step() == 8
    for name, value in values[0].items():
        np.testing.assert_array_equal(values[1][name], value, err_msg=name)
