"""Loss and gradients of a step, as means over its batches and towers, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.base.errors import ConfigError, ModelError
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import DataSource, training_batches
from ps_train.engine.step.backward import PulledInputs, mean_gradients
from ps_train.engine.step.towers import ONE_TOWER, Towers
from ps_train.engine.variables.trace import trace
from ps_train.modeling.tables.deferred_lookups import FetchedRows
from tests.support.graphs.local import LocalSession
from tests.support.graphs.steps import Averaging, linear_gradient
from tests.support.models.small import Linear

TWO = Towers(("/device:CPU:0", "/device:CPU:1"), "towers=2")
W, B = np.float32([[0.5], [-1.0], [2.0]]), np.float32(0.25)


class Computing:
    """The first steps of a model with fixed values, in a session."""

    def __init__(
        self,
        model: Any,
        accumulate: int = 1,
        towers: Towers = ONE_TOWER,
        batch_size: int = 4,
        epochs: int = 0,
        fetch: Any = lambda requests: {},
        values: Any = None,
        **options: Any,
    ) -> None:
        traced = trace(model, DataSource(lambda: model.data("train", "")), batch_size)
        with tf.Graph().as_default() as graph:
            data = model.data("train", "")
            batches = training_batches(data, WHOLE, batch_size, epochs, 0, endless=bool(epochs))
            given = {"w": W, "b": B} if values is None else values
            pulled = {name: tf.constant(value) for name, value in given.items()}
            inputs = PulledInputs(pulled, {}, traced, fetch, None, tf.constant(9, tf.int64), **options)  # type: ignore
            self.computed = mean_gradients(model, inputs, batches, accumulate, towers)
            self.session = LocalSession(graph)
            self.session.run(batches.initializer, batches.feeds())

    def run(self) -> Any:
        one = self.computed
        parts = {"masks": one.masks, "rows": one.rows, "used": one.used, "state": one.state}
        fetches = {"loss": one.loss, "gradients": one.gradients, "examples": one.examples, **parts}
        return self.session.run([fetches, one.updates])[0]


def check(found: Any, begin: int, end: int, tolerance: float = 1e-5) -> None:
    arrays = Linear().data("train", "")
    expected = linear_gradient(arrays.features[begin:end], arrays.labels[begin:end], W, float(B))
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=tolerance)
    for name in ("w", "b"):
        np.testing.assert_allclose(found["gradients"][name], expected[name], rtol=tolerance, atol=10 * tolerance)
    assert found["examples"] == end - begin


@pytest.mark.parametrize("towers", [ONE_TOWER, TWO], ids=["one", "two"])
@pytest.mark.parametrize(("accumulate", "batch_size"), [(1, 4), (1, 5), (3, 5)])
def test_gradients_are_means_over_all_batches_and_towers(towers: Towers, accumulate: int, batch_size: int) -> None:
    computing = Computing(Linear(), accumulate, towers, batch_size)
    size = accumulate * batch_size
    for step in range(2):
        check(computing.run(), step * size, (step + 1) * size)


@pytest.mark.parametrize("towers", [ONE_TOWER, TWO], ids=["one", "two"])
def test_batches_count_by_their_examples_and_not_at_all_after_the_end(towers: Towers) -> None:
    computing = Computing(Linear(), 3, towers, batch_size=24, epochs=1)
    check(computing.run(), 0, 64)  # 24, 24 and 16
    found = computing.run()
    assert found["examples"] == 0 and np.isfinite(found["loss"])
    assert not any(np.any(gradient) for gradient in found["gradients"].values())


class Narrow(Linear):
    """It computes in the dtype of the values that it gets."""

    def forward(self, features, training):
        w, b = v1.get_variable("w", [self.width, 1]), v1.get_variable("b", [], initializer=v1.zeros_initializer())
        assert w.dtype == b.dtype
        return tf.squeeze(tf.cast(features, w.dtype) @ w, 1) + b


def test_narrow_computation_gives_wide_gradients_and_loss() -> None:
    found = Computing(Narrow(), 2, compute_dtype=tf.bfloat16).run()
    check(found, 0, 8, 0.05)
    assert {found["loss"].dtype, *(one.dtype for one in found["gradients"].values())} == {np.dtype(np.float32)}


def test_what_is_differentiated_may_be_another_function_of_the_loss() -> None:
    plain, scaled = (Computing(Linear(), differentiated=f).run() for f in (lambda loss: loss, lambda loss: 8.0 * loss))
    assert scaled["loss"] == plain["loss"]
    np.testing.assert_allclose(scaled["gradients"]["w"], 8 * plain["gradients"]["w"], rtol=1e-5)


def test_the_model_sees_the_step_of_its_values() -> None:
    class Stepping(Linear):
        def loss(self, outputs, labels):
            return super().loss(outputs, labels) * 0.0 + tf.cast(v1.train.get_global_step(), tf.float32)

    assert Computing(Stepping()).run()["loss"] == 9


@pytest.mark.parametrize("accumulate", [1, 3])
def test_state_moves_with_every_batch_and_each_update_is_waited_for_once(accumulate: int) -> None:
    values = {"w": W, "b": B, "most": np.float32([-9, 0.5, 9]), "count": np.int64(40)}
    computing = Computing(Averaging(), accumulate, values=values)
    assert len(computing.computed.updates) == 2 * accumulate
    x = Linear().data("train", "").features
    for step in range(2):
        seen = x[step * 4 * accumulate : (step + 1) * 4 * accumulate]
        state = computing.run()["state"]
        assert state["count"] == 40 + accumulate, "loaded again in each step"
        np.testing.assert_allclose(state["most"], np.maximum(values["most"], seen.max(0)))


class Gathering(Linear):
    """Its gradient touches rows 0 and 2 of five; it looks up two tables, and learns one."""

    tables = ("learned", "fixed")

    def forward(self, features, training):
        w = v1.get_variable("w", [5, 1])
        rows = [embeddings.lookup(name, tf.constant([3, 1, 3]), rows=5, dimension=1) for name in self.tables]
        used = tf.reduce_sum(rows[0]) + tf.stop_gradient(tf.reduce_sum(rows[1]))
        return tf.reduce_sum(tf.gather(w, [2, 0, 2])) + used + 0.0 * features[:, 0]

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs)


def fetch(requests: Any) -> Any:
    rows = tf.constant([[5.0], [6.0]])
    return {name: FetchedRows(rows, tf.constant([0, 1, 0])) for name in requests}


def test_sparse_gradients_have_masks_and_rows_the_sum_of_all_their_lookups() -> None:
    found = Computing(Gathering(), fetch=fetch, values={"w": np.ones([5, 1], np.float32)}).run()
    assert found["gradients"]["w"].tolist() == [[1], [0], [2], [0], [0]]
    assert found["masks"]["w"].tolist() == [1, 0, 1, 0, 0] and found["loss"] == 3 + 16 + 16
    assert found["rows"]["learned"].tolist() == [[5], [6]]
    assert found["gradients"]["learned"].tolist() == [[2], [1]]
    assert found["gradients"]["fixed"].tolist() == [[0], [0]]
    assert {name: used.tolist() for name, used in found["used"].items()} == {"fixed": [0, 0]}, "no optimizer touches it"


class Noting(Gathering):
    """Counts its calls in a variable that is no state of ps_train."""

    def forward(self, features, training):
        calls = v1.get_local_variable("calls", [], initializer=v1.zeros_initializer(), use_resource=True)
        with tf.control_dependencies([calls.assign_add(1.0).op]):
            return super().forward(features, training)


def test_towers_with_tables_and_an_effect_on_each_other_are_refused() -> None:
    values = {"w": np.ones([5, 1], np.float32)}
    Computing(Gathering(), towers=TWO, fetch=fetch_twice, values=values)
    with pytest.raises(ConfigError, match=r"towers=2 is not possible with tables \(learned, fixed\) and the effect of"):
        Computing(Noting(), towers=TWO, fetch=fetch_twice, values=values)


def fetch_twice(requests: Any) -> Any:
    rows = tf.constant([[5.0], [6.0]])
    return {name: FetchedRows(rows, tf.constant([0, 1, 0] * 2)) for name in requests}


def test_what_is_no_operation_in_update_ops_is_refused() -> None:
    class Wrong(Linear):
        def forward(self, features, training):
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, "mine")
            return super().forward(features, training)

    with pytest.raises(ModelError, match=r"UPDATE_OPS holds 'mine': add operations or tensors to it"):
        Computing(Wrong())


def test_losses_in_collections_are_of_one_build_alone() -> None:
    class Regularized(Linear):
        def forward(self, features, training):
            v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, tf.constant(100.0))
            return super().forward(features, training)

        def loss(self, outputs, labels):
            return super().loss(outputs, labels) * 0.0 + tf.add_n(v1.losses.get_regularization_losses())

    assert Computing(Regularized(), 3, TWO).run()["loss"] == pytest.approx(100)
