"""Local steps against numpy: the formulas of the papers, in every update mode, with what belongs to the inner step.

Values are float32, those of numpy float64.  Sums of some dozen products are exact to about 1e-6 of the largest; Adam
divides such a gradient by its own size, and moves as far by a small one, of which the rounding is a larger part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.process_stats import ProcessStats
from ps_train.config.optimizer_arguments import ADAGRAD_START
from ps_train.data.arrays import Arrays
from ps_train.engine.step.repeated_section import RepeatedSection
from ps_train.engine.updates.gradients.push_guard import NOT_FINITE
from ps_train.modeling.model import Model
from tests.cluster.engine.transport.test_model_state import Averaged, expected
from tests.support.clusters import coded
from tests.support.clusters.cluster import InProcessCluster, batches_of
from tests.support.clusters.local_rounds import (
    Adagrad,
    Adam,
    DelayedNesterov,
    Descent,
    Inner,
    LocalRounds,
    Momentum,
    Nesterov,
    Outer,
    Sgd,
    Values,
    batches_for,
)
from tests.support.long import long
from tests.support.models.mixed import Perceptron
from tests.support.models.small import Linear

RATE, BATCH = 0.05, 4
# Without regularization FTRL is Adagrad that begins at 0 (McMahan et al. 2013, section 3).
INNER: dict[str, Callable[[], Inner]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "adam": Adam,
    "adagrad": lambda: Adagrad(ADAGRAD_START),
    "ftrl": Adagrad,
}
TOLERANCE = {"sgd": 2e-6, "momentum": 2e-6, "adam": 2e-5, "adagrad": 2e-5, "ftrl": 2e-5}


class FromZero(Linear):
    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        with v1.variable_scope("", initializer=v1.zeros_initializer()):
            return super().forward(features, training)


def cluster_of(workers: int, num_ps: int = 2, model: Model | None = None, **fields: Any) -> InProcessCluster:
    settings = {"optimizer": "sgd", "learning_rate": RATE, "batch_size": BATCH, **fields}
    model = model or (FromZero if settings["optimizer"] == "ftrl" else Linear)(count=41, width=5)
    cluster = InProcessCluster(model, num_ps, workers, partition_bytes=8, **settings)
    cluster.start()
    return cluster


def usual_outer(cluster: InProcessCluster) -> Outer | None:
    job, workers = cluster.job, len(cluster.steps)
    if job.is_elastic_average:
        return None
    if job.update == "sync":
        return Nesterov() if job.outer_optimizer == "nesterov" else Descent(1.0)
    return DelayedNesterov(workers) if job.outer_optimizer == "nesterov" else Descent(1 / workers)


def rounds_of(cluster: InProcessCluster, **options: Any) -> LocalRounds:
    """Those of numpy, from the cluster's present values."""
    job, workers = cluster.job, len(cluster.steps)
    data, inner = cluster.model.data("train", ""), INNER[job.optimizer or ""]
    shares = [batches_for(data, BATCH, one, workers, job.epochs, job.accumulate) for one in range(workers)]
    settings = {
        "outer": usual_outer(cluster),
        "rate": lambda step: RATE,
        "alpha": min(1.0, 0.9 / workers) if job.is_elastic_average else 0.0,
        "fresh": job.inner_state == "fresh",
        **options,
    }
    return LocalRounds(values_of(cluster), shares, inner, **settings)


def values_of(cluster: InProcessCluster) -> Values:
    return {name: value for name, value in cluster.values().items() if name in ("w", "b")}


def own_values(cluster: InProcessCluster, worker: int) -> Values:
    reads = {name: f"ps_train/now/{name}/Read/ReadVariableOp:0" for name in ("w", "b")}
    return cluster.sessions[worker].run(reads)


def assert_close(found: Values, wanted: Values, tolerance: float) -> None:
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


def check(cluster: InProcessCluster, rounds: LocalRounds, tolerance: float | None = None) -> None:
    """Compares values and counts; under elastic averaging the workers' own values too."""
    tolerance = tolerance or TOLERANCE[cluster.job.optimizer or ""]
    found = cluster.values()
    assert_close(found, rounds.values, tolerance)
    counts = ("examples", "skipped", "dropped")
    assert cluster.global_step() == rounds.step
    assert [int(found[f"ps_train/{name}"]) for name in counts] == [rounds.examples, rounds.skipped, rounds.dropped]
    if cluster.job.is_elastic_average:
        for index, worker in enumerate(rounds.workers):
            assert_close(own_values(cluster, index), worker.now, tolerance)


def test_rounds_of_one_step_whose_mean_is_taken_over_are_plain_synchronous_updates() -> None:
    local = cluster_of(2, update="sync", outer_optimizer="sgd", outer_optimizer_arg=("learning_rate=1.0",))
    plain = cluster_of(2, update="sync")
    assert_close(values_of(local), values_of(plain), 0.0)
    local.rounds([1] * 8)
    plain.train(8)
    assert_close(values_of(local), values_of(plain), 1e-6)
    assert local.global_step() == plain.global_step() == 8
    assert local.values()["ps_train/examples"] == plain.values()["ps_train/examples"]


@pytest.mark.parametrize("optimizer", ["ftrl", long("adam"), long("momentum"), long("rmsprop"), long("adagrad")])
def test_rounds_of_one_worker_are_the_steps_of_a_job_without_them(optimizer: str) -> None:
    """FTRL keeps nothing of the initial values, with local steps neither."""
    model = Linear(count=41, width=5)
    local = cluster_of(1, model=model, update="sync", local_steps=4, optimizer=optimizer)
    plain = cluster_of(1, model=model, update="sync", optimizer=optimizer)
    assert values_of(plain)["w"].all()
    assert_close(values_of(local), values_of(plain), 0.0)
    local.rounds([4, 1, 4])
    plain.train(9)
    assert_close(values_of(local), values_of(plain), 1e-6)


@dataclasses.dataclass(frozen=True)
class Case:
    workers: int
    steps: int
    inner: str
    outer: str
    num_ps: int = 2

    def __str__(self) -> str:
        return f"{self.workers} workers, {self.steps} steps of {self.inner}, {self.outer}, {self.num_ps} ps"


@pytest.mark.parametrize(
    "case",
    [
        Case(2, 3, "adam", "nesterov"),
        long(Case(1, 5, "momentum", "sgd")),
        long(Case(1, 3, "adam", "nesterov", num_ps=1)),
        long(Case(2, 5, "sgd", "sgd", num_ps=1)),
        long(Case(2, 3, "momentum", "nesterov")),
        long(Case(3, 3, "sgd", "nesterov")),
        long(Case(3, 5, "momentum", "nesterov")),
        long(Case(3, 5, "adam", "sgd")),
        Case(2, 3, "ftrl", "sgd"),
        long(Case(3, 4, "ftrl", "nesterov")),
        long(Case(2, 3, "adagrad", "nesterov")),
    ],
    ids=str,
)
def test_synchronous_rounds_are_those_of_numpy(case: Case) -> None:
    cluster = cluster_of(
        case.workers,
        case.num_ps,
        update="sync",
        local_steps=case.steps,
        optimizer=case.inner,
        outer_optimizer=case.outer,
    )
    rounds = rounds_of(cluster)
    for joined, lengths in ((0, [case.steps] * 3), (1, [case.steps - 1, 1, case.steps, 2]), (3, [case.steps] * 4)):
        cluster.rounds(lengths, joined=joined)
        rounds.together(lengths)
        check(cluster, rounds)


@pytest.mark.parametrize("outer", ["sgd", long("nesterov"), long("elastic")])
def test_workers_count_by_their_examples_when_their_input_ends_at_different_batches(outer: str) -> None:
    """Of 41 examples one worker has 21, which are 6 batches, the other 20, which are 5."""
    cluster = cluster_of(2, update="sync", local_steps=4, epochs=1, outer_optimizer=outer, optimizer="momentum")
    rounds = rounds_of(cluster)
    for length in (4, 4, 4):
        cluster.rounds([length])
        rounds.together([length])
        check(cluster, rounds)
    assert (rounds.step, rounds.examples) == (6, 41), "a round without examples is none"


@pytest.mark.parametrize("arguments", [("learning_rate=0.5", "momentum=0.6"), long(("momentum=0",))])
@pytest.mark.parametrize("update", [long("async"), long("sync")])
def test_arguments_of_the_outer_optimizer_are_those_of_numpy(update: str, arguments: tuple[str, ...]) -> None:
    cluster = cluster_of(2, update=update, local_steps=2, outer_optimizer="nesterov", outer_optimizer_arg=arguments)
    rate, momentum = (0.5, 0.6) if len(arguments) > 1 else (0.7, 0.0)
    outer = Nesterov(rate, momentum) if update == "sync" else DelayedNesterov(2, rate, momentum)
    rounds = rounds_of(cluster, outer=outer)
    for _ in range(4):
        if update == "sync":
            cluster.rounds([2])
            rounds.together([2])
        else:
            drive(cluster, rounds, [0, 1], 2)
    check(cluster, rounds)


def drive(cluster: InProcessCluster, rounds: LocalRounds, order: list[int], steps: int) -> None:
    """Workers make rounds one after the other."""
    for index in order:
        cluster.rounds([steps], workers=[index])
        rounds.alone(index, [steps])


@pytest.mark.parametrize("inner", ["momentum", long("adam")])
def test_elastic_averaging_of_all_workers_at_once_moves_both_sides(inner: str) -> None:
    cluster = cluster_of(2, update="sync", local_steps=3, outer_optimizer="elastic", optimizer=inner)
    rounds = rounds_of(cluster)
    for _ in range(5):
        cluster.rounds([3])
        rounds.together([3])
        check(cluster, rounds)
    assert np.abs(own_values(cluster, 0)["w"] - own_values(cluster, 1)["w"]).max() > 1e-3, "each has its own"


@pytest.mark.parametrize("update", ["async", long("bounded")])
def test_elastic_averaging_of_one_worker_after_the_other_moves_both_sides(update: str) -> None:
    ahead: dict[str, Any] = {"max_steps_ahead": 5} if update == "bounded" else {}
    cluster = cluster_of(
        2, update=update, local_steps=3, outer_optimizer="elastic", outer_optimizer_arg=("alpha=0.3",), **ahead
    )
    rounds = rounds_of(cluster, alpha=0.3)
    for order in ([0, 1], [0, 0, 1], [1, 1, 0], [1, 0]):
        drive(cluster, rounds, order, 3)
        check(cluster, rounds)


@pytest.mark.parametrize("outer", ["nesterov", long("sgd")])
@pytest.mark.parametrize("update", ["async", long("bounded")])
def test_rounds_of_one_worker_after_the_other_are_those_of_numpy(update: str, outer: str) -> None:
    """The difference of a worker is that from the values before the other's rounds."""
    ahead: dict[str, Any] = {"max_steps_ahead": 5} if update == "bounded" else {}
    cluster = cluster_of(2, update=update, local_steps=3, outer_optimizer=outer, optimizer="momentum", **ahead)
    rounds = rounds_of(cluster)
    for order in ([0, 1, 0, 1], [1, 1, 0], [0, 0, 1]):
        drive(cluster, rounds, order, 3)
        check(cluster, rounds)
    assert cluster.global_step() == 30


@pytest.mark.parametrize("rule", ["max_staleness", long("divide_lr_by_staleness")])
def test_staleness_is_counted_in_rounds(rule: str) -> None:
    drops = rule == "max_staleness"
    given: dict[str, Any] = {rule: 1 if drops else True}
    cluster = cluster_of(2, update="async", local_steps=3, **given)
    rounds = rounds_of(cluster, **({"max_staleness": 1} if drops else {"divides": True}))
    drive(cluster, rounds, [0, 1, 1, 0, 0, 1, 1, 1, 0], 3)
    check(cluster, rounds)
    assert rounds.dropped == (2 if drops else 0)


@pytest.mark.parametrize(
    ("update", "optimizer"), [("async", "adam"), long("sync", "adam"), ("async", "ftrl"), long("sync", "ftrl")]
)
def test_a_round_that_is_abandoned_leaves_nothing(update: str, optimizer: str) -> None:
    """Slots begin anew: FTRL, which computes values from its slots alone, must not lose those that it has trained."""
    cluster = cluster_of(2, update=update, local_steps=4, optimizer=optimizer)
    rounds = rounds_of(cluster)
    if update == "sync":
        cluster.dismiss(1)
        rounds.workers.pop()
    drive(cluster, rounds, [0, 0], 4)
    if update == "async":
        drive(cluster, rounds, [1], 4)
    cluster.sessions[0].run(cluster.steps[0].local_steps(2))
    cluster.open_again(0)
    rounds.leave(0, 2)
    check(cluster, rounds)
    drive(cluster, rounds, [0, 0], 4)
    check(cluster, rounds)


@pytest.mark.parametrize(
    ("update", "optimizer"), [("async", "adam"), long("sync", "adam"), long("async", "ftrl"), ("sync", "ftrl")]
)
def test_fresh_slots_begin_with_each_round(update: str, optimizer: str) -> None:
    cluster = cluster_of(2, update=update, local_steps=3, optimizer=optimizer, inner_state="fresh")
    rounds = rounds_of(cluster)
    if update == "sync":
        cluster.rounds([3] * 3)
        rounds.together([3] * 3)
    else:
        drive(cluster, rounds, [0, 1, 1, 0], 3)
    check(cluster, rounds)


def l2_and_clipping(gradients: Values, values: Values) -> Values:
    whole = {name: one + 0.1 * values[name] for name, one in gradients.items()}
    norm = np.sqrt(sum(np.sum(one**2) for one in whole.values()))
    return {name: one / max(norm, 1.0) for name, one in whole.items()}


@pytest.mark.parametrize("update", ["async", long("sync")])
def test_clipping_l2_and_a_growing_rate_belong_to_each_local_step(update: str) -> None:
    fields: dict[str, Any] = {"l2": 0.1, "clip_global_norm": 1.0, "warmup_steps": 10, "optimizer": "momentum"}
    cluster = cluster_of(1 if update == "async" else 2, update=update, local_steps=3, **fields)
    rounds = rounds_of(cluster, transform=l2_and_clipping, rate=lambda step: RATE * min(1.0, (step + 1) / 10))
    for _ in range(4):
        cluster.rounds([3])
        rounds.together([3])
        check(cluster, rounds)


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_the_rate_of_a_worker_with_elastic_averaging_grows_with_each_local_step(update: str) -> None:
    cluster = cluster_of(
        1 if update == "async" else 2, update=update, local_steps=3, outer_optimizer="elastic", warmup_steps=10
    )
    rounds = rounds_of(cluster, rate=lambda step: RATE * min(1.0, (step + 1) / 10))
    for _ in range(4):
        cluster.rounds([3])
        rounds.together([3])
        check(cluster, rounds)


class Bad(Linear):
    """Of 60 examples some are no numbers."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(count=60, width=5)
        self._bad = slice(first, last)

    def data(self, split: str, data_dir: str) -> Arrays:
        arrays: Any = super().data(split, data_dir)
        arrays.features[self._bad] = np.nan
        return arrays


@pytest.mark.parametrize("update", ["async", long("bounded"), long("sync")])
def test_one_bad_batch_is_left_out_of_a_round_and_counted(update: str) -> None:
    workers = 2 if update == "sync" else 1
    cluster = cluster_of(workers, model=Bad(8, 9), update=update, local_steps=3, on_nan="skip", optimizer="momentum")
    rounds = rounds_of(cluster)
    for _ in range(2):
        cluster.rounds([3])
        rounds.together([3]) if update == "sync" else rounds.alone(0, [3])
    check(cluster, rounds)
    assert (rounds.skipped, rounds.step) == (1, 6 if update == "sync" else 5)


@pytest.mark.parametrize("update", ["async", long("bounded"), long("sync")])
def test_a_round_of_bad_batches_alone_changes_nothing(update: str) -> None:
    cluster = cluster_of(1, model=Bad(12, 24), update=update, local_steps=3, on_nan="skip", optimizer="momentum")
    rounds = rounds_of(cluster)
    for _ in range(3):
        cluster.rounds([3])
        rounds.alone(0, [3])
    check(cluster, rounds)
    assert (rounds.skipped, rounds.step) == (3, 6)


@pytest.mark.parametrize("alone", [long("in a call of its own"), long("at the end of a round")])
def test_a_bad_batch_ends_the_call_if_it_is_not_to_be_left_out(alone: str) -> None:
    first = 8 if alone == "at the end of a round" else 4
    cluster = cluster_of(1, model=Bad(first, first + 1), update="async", local_steps=3)
    before = cluster.values()
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
        cluster.rounds([3])
    assert_close(cluster.values(), before, 0.0)


class BadGradient(Linear):
    """The loss is finite, and the gradient of `b` is not, in batches with the example 16."""

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        outputs, b = (
            super().forward(features, training),
            v1.get_default_graph().get_collection("trainable_variables")[1],
        )
        bad = float(self.data("train", "").features[16, 0])
        has_it = tf.reduce_any(tf.abs(features[:, 0] - bad) < 1e-6)
        return tf.cond(has_it, lambda: outputs + tf.sqrt(tf.nn.relu(b - 1e6)), lambda: outputs)


@pytest.mark.parametrize("optimizer", ["ftrl", long("adam")])
def test_a_gradient_that_is_not_finite_ends_the_training_though_an_optimizer_hides_it(optimizer: str) -> None:
    """FTRL makes it a value of 0, from which no later loss tells it."""
    cluster = cluster_of(1, model=BadGradient(count=41, width=5), update="async", local_steps=3, optimizer=optimizer)
    cluster.rounds([3])
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
        cluster.rounds([3, 3])


@pytest.mark.parametrize("update", ["sync", long("async")])
def test_slots_of_the_outer_optimizer_have_keys_that_no_optimizer_of_a_model_has(update: str) -> None:
    """A job whose own optimizer is momentum may go on with local steps, whose momentum is another one."""
    cluster = cluster_of(1, update=update, local_steps=3, outer_optimizer="nesterov", optimizer="momentum")
    names = {"sync": ["outer_momentum"], "async": ["outer_momentum", "outer_sum"]}[update]
    wanted = [f"{variable}/{name}" for variable in ("b", "w") for name in names]
    found = {entry.key: entry.optional for entry in cluster.steps[0].ps.entries if entry.key.startswith(("w/", "b/"))}
    assert sorted(found) == wanted and all(found.values())


@pytest.mark.long
@pytest.mark.parametrize("update", ["sync", long("async")])
@pytest.mark.parametrize("outer", ["sgd", long("elastic")])
def test_the_state_of_a_model_is_that_of_worker_0_after_its_last_local_step(update: str, outer: str) -> None:
    model, workers = Averaged(), 2 if update == "sync" else 1
    cluster = cluster_of(workers, model=model, update=update, local_steps=3, outer_optimizer=outer, learning_rate=0.01)
    for number in range(1, 9):
        cluster.rounds([3])
        mine = [(x[::workers], y[::workers]) for x, y in batches_of(model, BATCH * workers, 3 * number)]
        assert_close(cluster.values(), expected(mine), 1e-5)


@pytest.mark.parametrize("update", ["async", long("sync")])
@pytest.mark.parametrize("codec", ["top_k:0.5", long("int8"), long("top_k:0.5,int8")])
def test_what_a_codec_leaves_out_of_a_difference_is_pushed_later(update: str, codec: str) -> None:
    """The gradients of the model do not depend on its values, so all that was left out is there at the end."""
    model = coded.Fixed()
    cluster = coded.cluster_of(model, update=update, push_codec=codec, local_steps=3)
    batches = [x.mean(0) for x, _ in batches_of(model, 8, 12)]
    moved: Any = model.default_learning_rate * np.sum(batches, 0, np.float64)
    wanted = {"first": 1 - moved, "second": 1 - 0.01 * moved[::-1]}
    cluster.rounds([3] * 4)
    found = coded.values_of(cluster)
    left = {name: np.abs(found[name] - value).max() for name, value in wanted.items()}
    largest = max(np.abs(one).max() for one in batches)
    assert 1e-4 < left["first"] <= 3 * model.default_learning_rate * largest, left
    assert coded.finish(cluster)
    assert_close(coded.values_of(cluster), wanted, 1e-5)


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_pulled_values_of_few_bits_are_the_start_of_a_round(update: str) -> None:
    workers = 2 if update == "sync" else 1
    cluster = cluster_of(workers, update=update, local_steps=3, pull_codec="bfloat16")
    rounds = rounds_of(cluster)
    cluster.rounds([3] * 4)
    rounds.together([3] * 4)
    check(cluster, rounds, 2**-6)


@pytest.mark.long
def test_a_worker_that_computes_in_16_bits_keeps_its_values_in_32() -> None:
    found = []
    for dtype in ("float32", "float16"):
        cluster = cluster_of(
            2, model=Perceptron(), update="sync", local_steps=3, compute_dtype=dtype, learning_rate=0.5
        )
        before = cluster.values()
        cluster.rounds([3] * 4)
        found.append(cluster.values())
    wide, narrow = found
    assert narrow["ps_train/skipped"] == 0 and narrow["global_step"] == 12
    for name in ("hidden/weights", "logits/weights"):
        assert np.abs(wide[name] - before[name]).max() > 0.05
        np.testing.assert_allclose(narrow[name], wide[name], atol=1e-3, err_msg=name)


@pytest.mark.parametrize("update", ["async", long("sync")])
def test_a_local_step_of_several_batches_uses_their_mean(update: str) -> None:
    workers = 2 if update == "sync" else 1
    cluster = cluster_of(workers, update=update, local_steps=3, accumulate=2, optimizer="momentum")
    rounds = rounds_of(cluster)
    cluster.rounds([3, 3, 2])
    rounds.together([3, 3, 2])
    check(cluster, rounds)
    assert rounds.examples == 8 * 8 * workers


def ran_on(cluster: InProcessCluster, fetches: Any) -> tuple[set[str], list[str]]:
    """The tasks of a call, and the names of what they send."""
    metadata, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
    cluster.sessions[0].run(fetches, options=options, run_metadata=metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    tasks = {"/".join(node.device.split("/")[1:4:2]) for node in nodes}
    return tasks, [node.name for node in nodes if node.op in ("_Send", "_HostSend")]


@pytest.mark.parametrize("update", ["sync", long("async"), long("bounded")])
@pytest.mark.parametrize("outer", ["nesterov", long("elastic")])
def test_local_steps_send_no_message(update: str, outer: str) -> None:
    cluster = cluster_of(1, update=update, local_steps=5, optimizer="adam", outer_optimizer=outer)
    tasks, sent = ran_on(cluster, cluster.steps[0].local_steps(4))
    assert tasks == {"job:worker/task:0"} and not sent
    tasks, sent = ran_on(cluster, cluster.steps[0].steps_per_call(1))
    assert tasks == {"job:worker/task:0", "job:ps/task:0", "job:ps/task:1"} and sent


@pytest.mark.parametrize("update", ["sync", long("async"), long("bounded")])
def test_a_round_sends_few_messages(update: str) -> None:
    cluster = cluster_of(1, 1, update=update, local_steps=5, optimizer="adam")
    _, sent = ran_on(cluster, cluster.steps[0].whole_rounds(5))
    between = [name for name in sent if not name.startswith("_send_")]  # those are for the caller
    # Each way the values, or what has changed, and the scalars of the round; and that the ps has begun its part.
    assert len(between) == 5, sent


def branches_of_worker(cluster: InProcessCluster, fetches: Any) -> set[str]:
    """The names of a call's operations on the worker with which TensorFlow decides what to run."""
    metadata, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
    cluster.sessions[0].run(fetches, options=options, run_metadata=metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node if "/job:worker/" in node.device]
    assert nodes
    return {node.name for node in nodes if node.op in ("Switch", "Merge", "Enter")}


@pytest.mark.parametrize("on_nan", ["stop", "skip"])
@pytest.mark.parametrize("update", ["sync", long("async"), long("bounded")])
def test_all_nodes_of_a_call_run_on_the_worker_so_that_they_run_in_the_fast_way(update: str, on_nan: str) -> None:
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("beside a GPU conditions stay branches")
    cluster = cluster_of(1, 1, update=update, local_steps=4, optimizer="adam", on_nan=on_nan)
    step = cluster.steps[0]
    for fetches in (step.local_steps(3), step.end_of_round(), step.whole_rounds(4)):
        assert not branches_of_worker(cluster, fetches)
    cluster = cluster_of(1, 1, update=update, local_steps=1, optimizer="adam", on_nan=on_nan)
    for length in (1, 3):
        assert not branches_of_worker(cluster, cluster.steps[0].steps_per_call(length)["train"])


class Large(Linear):
    """A variable of 400 kB, and few examples."""

    def forward(self, features: Any, training: bool) -> Any:
        large = v1.get_variable("large", [100_000], initializer=v1.zeros_initializer())
        linear: Any = super()
        return linear.forward(features, training) + tf.reduce_mean(large)


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_the_bytes_of_a_round_do_not_grow_with_its_steps(update: str) -> None:
    model, rounds = Large(), 6
    cluster = InProcessCluster(
        model, 2, 1, partition_bytes=1 << 16, update=update, local_steps=16, learning_rate=1e-3, optimizer="sgd"
    )
    cluster.start()
    sent = {}
    for steps in (2, 16):
        cluster.rounds([steps])
        before = ProcessStats().read()["sent_bytes"]
        cluster.rounds([steps] * rounds)
        sent[steps] = ProcessStats().read()["sent_bytes"] - before
    assert sent[2] == pytest.approx(2 * 400_000 * rounds, rel=0.1), "one pull and one push"
    assert sent[16] == pytest.approx(sent[2], rel=0.05)


class Dropout(Linear):
    """A step adds 2 to those of its weights that are not dropped."""

    def data(self, split: str, data_dir: str) -> Arrays:
        return Arrays(np.ones((BATCH, 64), np.float32), np.zeros(BATCH, np.float32))

    def forward(self, features: Any, training: bool) -> Any:
        w = v1.get_variable("w", [64], initializer=v1.zeros_initializer())
        return -tf.reduce_sum(tf.nn.dropout(w, 0.5))

    def loss(self, outputs: Any, labels: Any) -> Any:
        return outputs


@pytest.mark.parametrize("update", ["async", long("sync")])
def test_each_local_step_drops_others(update: str) -> None:
    cluster = cluster_of(1, model=Dropout(), update=update, local_steps=8, learning_rate=1.0)
    read = "ps_train/now/w/Read/ReadVariableOp:0"
    masks, before = [], np.zeros(64)
    for count in (1, 1, 3, 3):
        cluster.sessions[0].run(cluster.steps[0].local_steps(count))
        now = cluster.sessions[0].run(read)
        masks.append(now - before)
        before = now
    assert not np.array_equal(masks[0], masks[1]) and not np.array_equal(masks[2], masks[3])
    for mask in masks[2:]:
        assert {*mask} == {0.0, 2.0, 4.0, 6.0}, "three steps of one mask would only add 0 or 6"
    cluster.steps[0].whole_rounds(8, 3)
    graph = cluster.steps[0].graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    seeds = [node.attr["seed2"].i for node in nodes if node.op == "RandomUniform" and "dropout" in node.name]
    assert len(seeds) == 1 + 1 + 2 * 3, "the step, a call of local steps, and three rounds, each with its end"
    assert len({*seeds}) == len(seeds)


class Strange(Linear):
    """Uses what a program of TensorFlow 1 may: branches, loops, functions of its own, Python, tables and states."""

    def forward(self, features: Any, training: bool) -> Any:
        w = v1.get_variable("w", [5, 1], initializer=v1.zeros_initializer())
        seen = v1.get_variable("seen", [], tf.int64, v1.zeros_initializer(), trainable=False)
        with tf.control_dependencies([seen.assign_add(1)] if training else []):
            key = tf.cast(seen.read_value() % 3, tf.int32)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([0, 1], [1.0, 2.0]), 3.0)
        features *= table.lookup(key)
        features = tf.cond(tf.reduce_sum(features) > 0, lambda: features * 2.0, lambda: features - 1.0)
        _, features = tf.while_loop(lambda i, one: i < 3, lambda i, one: (i + 1, one * 1.1), [0, features])
        features = tf.numpy_function(lambda one: one + np.float32(0.5), [features], tf.float32)
        features = tf.ensure_shape(features, [None, 5])

        @tf.function
        def product(x: Any, y: Any) -> Any:
            return tf.map_fn(lambda one: tf.linalg.matvec(tf.transpose(y), one), x)

        return product(features, w)[:, 0]


@pytest.mark.parametrize("control_flow", ["2", long("1")])
@pytest.mark.parametrize("way", ["loop", "copies"])
def test_local_steps_of_any_model_are_the_same_in_calls_of_any_length(
    monkeypatch: pytest.MonkeyPatch, control_flow: str, way: str
) -> None:
    monkeypatch.setattr(RepeatedSection, "is_loop", way == "loop")
    previous = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if control_flow == "2" else v1.disable_control_flow_v2)()
    try:
        model = Strange(count=40, width=5)
        single, longer, whole = (
            cluster_of(1, model=model, update="async", local_steps=4, optimizer="momentum") for _ in range(3)
        )
        for _ in range(2):
            for _ in range(3):
                single.sessions[0].run(single.steps[0].local_steps(1))
            single.sessions[0].run(single.steps[0].steps_per_call(1))
        longer.rounds([4, 4])
        whole.rounds([4, 4], joined=2)
    finally:
        (v1.enable_control_flow_v2 if previous else v1.disable_control_flow_v2)()
    wanted = single.values()
    assert np.any(wanted["w"]) and wanted["seen"] == 8
    for other in (longer.values(), whole.values()):
        for name, value in wanted.items():
            np.testing.assert_allclose(other[name], value, rtol=1e-6, err_msg=name)
