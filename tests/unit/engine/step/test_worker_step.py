"""The worker's part of a step: its share of the data, what it pushes, and what it leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.step.train_step import build_train_step
from ps_train.engine.updates.modes.base import Replica
from tests.support.graphs.local import LocalSession
from tests.support.graphs.steps import linear_gradient, spec_of
from tests.support.models.small import Linear


class Working:
    """A worker's step with the push of ps 0 decoded."""

    def __init__(self, model: Any, replica: Replica = Replica(0, 1, 1), **fields: Any) -> None:  # noqa: B008
        self.step = build_train_step(spec_of(model, 1, replica, optimizer="sgd", learning_rate=0.1, **fields))
        worker = self.step.worker
        with self.step.graph.as_default():
            (push,) = worker.received
            gradients, header = push.on_ps().gradients()
            self.fetches = {"push": gradients, "header": vars(header), "x": worker.batches.features}
            self.fetches |= {"loss": worker.loss, "examples": worker.examples}
        self.session: Any = LocalSession(self.step.graph, initialized=False)
        self.session.run(self.step.ps.initialize)
        self.step.local.prepare(self.session)
        self.session.run(worker.batches.initializer, worker.batches.feeds(seed=1))

    def run(self) -> Any:
        return self.session.run(self.fetches)


@pytest.mark.parametrize(
    ("replica", "rows"),
    [(Replica(0, 3, 2), slice(0, 8, 2)), (Replica(1, 3, 2), slice(1, 8, 2)), (Replica(2, 3, 2), slice(0, 4))],
    ids=["first", "second", "joined later"],
)
def test_declared_replicas_share_the_data_and_one_that_joins_reads_all(replica: Replica, rows: slice) -> None:
    found = Working(Linear(), replica).run()
    np.testing.assert_array_equal(found["x"], Linear().data("train", "").features[rows])


@pytest.mark.parametrize(("update", "factor"), [("async", 1), ("sync", 4)])
def test_a_push_has_the_gradient_and_its_examples_and_is_weighted_where_the_mode_adds_up(update, factor) -> None:
    working = Working(Linear(), update=update)
    values = working.session.run(dict(working.step.ps.variables))
    data = Linear().data("train", "")
    found = working.run()
    expected = linear_gradient(data.features[:4], data.labels[:4], values["w"], float(values["b"]))
    for name in ("w", "b"):
        np.testing.assert_allclose(found["push"][name], factor * expected[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-5)
    assert (found["examples"], found["header"]["examples"], found["header"]["skipped"]) == (4, 4, 0)


class Broken(Linear):
    """The first batch has a feature that is no number."""

    def data(self, split: str, data_dir: str) -> Any:
        arrays = super().data(split, data_dir)
        arrays.features[2] = np.nan
        return arrays


def test_a_gradient_that_is_not_finite_is_left_out_and_the_next_is_not() -> None:
    working = Working(Broken(), on_nan="skip")
    found = working.run()
    assert np.isnan(found["loss"]) and (found["header"]["examples"], found["header"]["skipped"]) == (0, 1)
    assert not any(np.any(gradient) for gradient in found["push"].values())
    found = working.run()
    assert (found["header"]["examples"], found["header"]["skipped"]) == (4, 0) and np.any(found["push"]["w"])


def test_a_gradient_that_is_not_finite_stops_the_training_otherwise() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="finite"):
        Working(Broken()).run()


def test_after_the_end_of_the_input_nothing_counts_as_skipped() -> None:
    working = Working(Linear(), update="sync", epochs=1, batch_size=64, on_nan="skip")
    assert working.run()["header"]["examples"] == 64
    header = working.run()["header"]
    assert (header["examples"], header["skipped"]) == (0, 0)


def test_each_call_that_has_begun_is_counted() -> None:
    working = Working(Linear())
    for number in range(1, 4):
        working.run()
        assert working.session.run(working.step.worker.calls_begun) == number


def test_what_is_read_on_the_ps_may_be_read_ahead() -> None:
    ahead = Working(Linear()).step.worker.ahead
    assert ahead.rows == [] and {value.device for value in ahead.values} == {"/job:ps/replica:0/task:0/device:CPU:0"}
