"""Sums of a round's gradients on one ps, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.model_state import PushedState
from ps_train.engine.transport.parcels import early, pack, with_header
from ps_train.engine.transport.received_push import HEADER_SIZE, ReceivedPush
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.updates.modes.gradient_accumulator import GradientAccumulator
from ps_train.engine.variables.plan import Slice


def piece(name: str, shape: tuple[int, ...], dtype: str) -> Slice:
    return Slice(name, 0, 1, 0, shape, dtype, int(np.prod(shape)) * tf.as_dtype(dtype).size, ps=0)


PIECES = {"w": piece("w", (2, 3), "float32"), "b": piece("b", (), "float32"), "h": piece("h", (5,), "float16")}
STATE = piece("mean", (2,), "float32")


class Round:
    """An accumulator with placeholders for a push: gradients of each slice, and its number of examples."""

    def __init__(self, state: bool = False, has_state: bool = True) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            parcels = tuple(with_header(pack([*PIECES.values()], 0), 0, HEADER_SIZE))
            self.given = {name: v1.placeholder(one.dtype, [one.size]) for name, one in PIECES.items()}
            self.header, self.mean = v1.placeholder(tf.float32, [HEADER_SIZE]), v1.placeholder(tf.float32, [2])
            vectors = tuple(one.join(self.given, self.header if one.header else None) for one in parcels)
            of_state = tuple(pack([STATE], 0)) if state else ()
            values = tuple(one.join({"mean": self.mean}) for one in of_state) if has_state else ()
            push = ReceivedPush(0, parcels, vectors, state=PushedState(of_state, values))
            accumulator = GradientAccumulator("round", push, Replica(0, 2, 2))
            self.only_if, self.first = v1.placeholder(tf.bool, []), v1.placeholder(tf.bool, [])
            self._add = accumulator.add(push, self.only_if, self.first)
            self._means, self._state = accumulator.mean(), accumulator.state()
            self.session = v1.Session()
            self.session.run(v1.global_variables_initializer())

    def add(self, gradients, examples, only_if=True, first=False, skipped=0.0, mean=(0.0, 0.0)):
        """`gradients` are means; those of 32 bits travel multiplied by the examples."""
        scaled = {n: g if g.dtype == np.float16 else g * np.float32(examples) for n, g in gradients.items()}
        feeds = {self.given[name]: np.reshape(value, -1) for name, value in scaled.items()}
        fixed = {self.header: [examples, skipped, 0.0], self.only_if: only_if, self.first: first, self.mean: mean}
        self.session.run(self._add, {**feeds, **fixed})

    def means(self):
        gradients, header = self._means
        return self.session.run((gradients, [header.examples, header.skipped]))

    def state(self):
        return self.session.run(self._state)


def drawn(seed: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        name: (scale * random.normal(size=one.shape)).astype(tf.as_dtype(one.dtype).as_numpy_dtype)
        for name, one in PIECES.items()
    }


def test_the_mean_is_weighted_by_examples_and_a_first_push_replaces_what_was_there() -> None:
    round, pushes = Round(), [(drawn(number), examples) for number, examples in enumerate((8, 2, 6))]
    for number in range(2):  # the second round is as the first
        round.add(drawn(9 + number), 5, first=True)
        for index, (gradients, examples) in enumerate(pushes):
            round.add(gradients, examples, first=index == 0, skipped=float(index))
        means, (examples, skipped) = round.means()
        assert (examples, skipped) == (16, 3)
        for name, one in PIECES.items():
            expected = sum(gradients[name].astype(np.float64) * n for gradients, n in pushes) / 16
            assert means[name].dtype == one.dtype and means[name].shape == one.shape
            np.testing.assert_allclose(means[name], expected, rtol=2e-3, atol=2e-3)
            if one.dtype == "float32":
                np.testing.assert_allclose(means[name], expected, rtol=1e-5, atol=1e-6)


def test_sums_of_16_bits_are_made_in_32() -> None:
    round, large = Round(), drawn(1)
    large["h"] = np.full(5, 60_000, np.float16)
    for number in range(4):
        round.add(large, 100, first=number == 0)
    np.testing.assert_array_equal(round.means()[0]["h"], large["h"])


def test_a_push_that_is_not_wanted_changes_nothing() -> None:
    round = Round()
    round.add(drawn(1), 4, first=True)
    before = round.means()
    round.add(drawn(2), 4, only_if=False, first=True)
    round.add(drawn(2), 4, only_if=False)
    np.testing.assert_equal(round.means(), before)


def test_a_round_without_examples_has_a_mean_of_zeros() -> None:
    round = Round()
    round.add(drawn(1, 0.0), 0, first=True, skipped=1.0)
    means, header = round.means()
    assert header == [0, 1] and not any(np.any(mean) for mean in means.values())


def test_the_state_of_a_round_is_the_one_that_came_with_examples() -> None:
    round = Round(state=True)
    assert not round.state()[1][0], "none yet"
    round.add(drawn(1), 4, first=True, mean=(1.0, 2.0))
    values, is_there = round.state()
    assert is_there == [True] and values["mean"].tolist() == [1.0, 2.0]
    round.add(drawn(1, 0.0), 0, first=True, mean=(7.0, 7.0))
    assert round.state()[1] == [False]


def test_the_first_push_of_a_replica_without_state_ends_that_of_the_round_before() -> None:
    round = Round(state=True, has_state=False)
    round.add(drawn(1), 4, first=True)
    assert round.state()[1] == [False]
    assert Round().state() == ({}, [])


@pytest.mark.parametrize("nothing_at", [0, 1, 2])
def test_early_gradients_arrive_as_they_are_and_those_of_no_examples_may_be_of_any_value(nothing_at: int) -> None:
    pieces = {"w": piece("w", (512, 600), "float32"), "h": piece("h", (600, 1024), "bfloat16"), "b": PIECES["b"]}
    pushes = [8, 2, 6]
    pushes[nothing_at] = 0
    with tf.Graph().as_default(), v1.Session() as session:
        parcels = tuple(early(with_header(pack([*pieces.values()], 0), 0, HEADER_SIZE)))
        assert {one.is_early for one in parcels if not one.header} == {True}
        given = {name: v1.placeholder(one.dtype, [one.size]) for name, one in pieces.items()}
        header, first = v1.placeholder(tf.float32, [HEADER_SIZE]), v1.placeholder(tf.bool, [])
        vectors = tuple(one.join(given, header if one.header else None) for one in parcels)
        accumulator = GradientAccumulator("round", ReceivedPush(0, parcels, vectors), Replica(0, 2, 2))
        add, means = accumulator.add(ReceivedPush(0, parcels, vectors), tf.constant(True), first), accumulator.mean()[0]
        session.run(v1.global_variables_initializer())
        expected = dict.fromkeys(pieces, np.zeros([]))
        for _ in range(2):  # the second round is as the first
            for index, examples in enumerate(pushes):
                random = np.random.default_rng(index)
                feeds = {header: np.array([examples, 0, 0], np.float32), first: index == 0}
                for name, one in pieces.items():
                    value = random.normal(size=one.size).astype(tf.as_dtype(one.dtype).as_numpy_dtype)
                    sent = value if name != "b" else value * np.float32(examples)
                    feeds[given[name]] = sent if examples or name == "b" else np.full_like(value, np.nan)
                    share = value.astype(np.float64) * examples / sum(pushes)
                    expected[name] = expected[name] + share.reshape(one.shape)
                session.run(add, feeds)
        for name, mean in session.run(means).items():
            tolerance = 1e-2 if name == "h" else 1e-5
            np.testing.assert_allclose(np.float64(mean), expected[name] / 2, rtol=tolerance, atol=tolerance)
