"""Scripts whose names mean other variables in another worker, by their graphs alone."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.compat.train.agreed_variables import ScriptVariables, agree, described, differences
from ps_train.compat.train.device_setter import replica_device_setter

FACTORS = {"alpha": 1.0, "beta": 2.0, "gamma": 3.0, "delta": 4.0}
OTHER = ["alpha", "gamma", "beta", "delta"]

Out = Callable[[Any, Sequence[str]], Any]


def linear(x: Any, names: Sequence[str]) -> Any:
    out: Any = 0.0
    for name in names:
        out += x @ v1.Variable(tf.zeros([2, 1]), use_resource=False) * FACTORS[name]
    return out


def resources(x: Any, names: Sequence[str]) -> Any:
    with v1.variable_scope("net"):
        made = {name: v1.Variable(tf.ones([2, 1]), name="w", use_resource=True) for name in names}
    return tf.add_n([x @ made[name] * factor for name, factor in FACTORS.items()])


def towers(x: Any, names: Sequence[str]) -> Any:
    functions = {"alpha": tf.tanh, "beta": tf.sigmoid, "gamma": tf.nn.relu, "delta": tf.identity}
    made = {name: [v1.Variable(tf.random.normal([2, 2], seed=1), name=one) for one in "wv"] for name in names}
    return tf.reduce_sum(tf.add_n([functions[name](x @ made[name][0]) @ made[name][1] for name in FACTORS]), 1)


def by_initial_value(x: Any, names: Sequence[str]) -> Any:
    return tf.add_n([x @ v1.Variable(tf.fill([2, 1], FACTORS[name])) for name in names])


def lookups(x: Any, names: Sequence[str]) -> Any:
    tables = {name: v1.Variable(tf.zeros([9, 1]), use_resource=False) for name in names}
    ids = tf.cast(x[:, 0], tf.int32)
    return tf.add_n([tf.nn.embedding_lookup(tables[name], ids) * factor for name, factor in FACTORS.items()])


def graph_of(out: Out, names: Sequence[str], optimizer: Any = None, num_ps: int = 1, more: Any = None) -> tf.Graph:
    with tf.Graph().as_default() as graph, v1.device(replica_device_setter(ps_tasks=num_ps)):
        x = v1.placeholder(tf.float32, [8, 2])
        loss = tf.reduce_mean((out(x, names) - 1.0) ** 2)
        (optimizer or v1.train.GradientDescentOptimizer)(0.1).minimize(loss, v1.train.get_or_create_global_step())
        if more is not None:
            more(loss)
    return graph


def found(one: tf.Graph, other: tf.Graph) -> list[str]:
    theirs = ScriptVariables.from_json(described("worker:0", one).to_json())
    return differences(theirs, described("worker:1", other))


@pytest.mark.parametrize("optimizer", [v1.train.GradientDescentOptimizer, v1.train.AdamOptimizer])
@pytest.mark.parametrize("out", [linear, resources, towers, by_initial_value, lookups])
def test_numbered_names_of_another_order_are_found(out: Out, optimizer: Any) -> None:
    first = graph_of(out, list(FACTORS), optimizer)
    own = [line for line in found(first, graph_of(out, OTHER, optimizer)) if "Adam" not in line]
    assert len(own) == (4 if out is towers else 2) and all("_1" in line and "_2" in line for line in own), own
    assert found(first, graph_of(out, list(FACTORS), optimizer)) == []


def named(x: Any, names: Sequence[str]) -> Any:
    sizes = {"alpha": 1, "beta": 9, "gamma": 1, "delta": 9}
    return tf.add_n([tf.reduce_sum(x @ v1.get_variable(name, [2, sizes[name]])) * FACTORS[name] for name in names])


def test_a_name_on_another_ps_is_found() -> None:
    first = graph_of(named, list(FACTORS), num_ps=2)
    lines = found(first, graph_of(named, list(FACTORS)[::-1], num_ps=2))
    assert "gamma is on ps:0 at worker:0, on ps:1 at worker:1" in lines
    assert found(first, graph_of(named, list(FACTORS), num_ps=2)) == []
    assert found(graph_of(named, list(FACTORS)), graph_of(named, OTHER)) == []


def test_a_name_of_another_shape_is_found() -> None:
    def of_size(size: int) -> tf.Graph:
        return graph_of(lambda x, _: x @ v1.get_variable("w", [2, size]), [])

    assert found(of_size(1), of_size(3)) == ["w is float32 (2, 1) at worker:0, float32 (2, 3) at worker:1"]


def test_graphs_that_differ_otherwise_are_left_alone() -> None:
    def chief_only(loss: Any) -> None:
        v1.train.ExponentialMovingAverage(0.9).apply(v1.trainable_variables())
        v1.summary.histogram("w", v1.trainable_variables()[0])
        v1.Variable(0.0, collections=[v1.GraphKeys.LOCAL_VARIABLES])
        v1.train.Saver()

    assert found(graph_of(linear, list(FACTORS), more=chief_only), graph_of(linear, list(FACTORS))) == []


def test_a_task_may_train_a_part_of_its_own() -> None:
    def part(own: int) -> Out:
        def out(x: Any, names: Sequence[str]) -> Any:
            return (x @ [v1.Variable(tf.zeros([2, 1])) for _ in range(2)][own]) * (own + 1.0)

        return out

    assert found(graph_of(part(0), []), graph_of(part(1), [])) == []


def test_synchronous_updates_are_compared_too() -> None:
    def sync(rate: float) -> Any:
        return v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(rate), 2)

    first = graph_of(linear, list(FACTORS), sync)
    assert len(found(first, graph_of(linear, OTHER, sync))) == 2
    assert found(first, graph_of(linear, list(FACTORS), sync)) == []


class Task:
    has_agreed = False

    def __init__(self, name: str, told: dict[str, str]) -> None:
        self.cluster = types.SimpleNamespace(task=name)
        self.presence = types.SimpleNamespace(connected_store=lambda index, table: self)
        self._told = told

    def get(self, key: str) -> str:
        return self._told.get(key, "")

    def compare_and_set(self, key: str, expected: str, value: str) -> str:
        before = self._told.get(key, "")
        self._told[key] = before or value
        return before

    def close(self) -> None:
        pass


def test_the_first_task_tells_and_the_others_are_refused() -> None:
    told: dict[str, str] = {}
    first, same, other, again = (Task(name, told) for name in ("worker:0", "worker:1", "worker:2", "worker:0"))
    right, wrong = graph_of(linear, list(FACTORS)), graph_of(linear, OTHER)
    assert not agree(same, right, may_tell=False) and told == {}
    assert agree(first, right, may_tell=True) and agree(same, right, may_tell=False)
    with pytest.raises(ConfigError, match=r"Variable_1 at worker:0 is Variable_2 at worker:2; .* a sorted list"):
        agree(other, wrong, may_tell=False)
    with pytest.raises(ConfigError, match="Variable_1 at an earlier process of worker:0 is Variable_2"):
        agree(again, wrong, may_tell=True)
    assert agree(first, wrong, may_tell=True)  # a later graph of the same process
    assert agree(Task("worker:3", {}), tf.Graph(), may_tell=False)  # without variables
