"""State that a model assigns: loaded for a step, changed in the order of the model's code, and sent afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.model_state import ModelState, PushedState
from ps_train.engine.transport.parcels import pack
from ps_train.engine.variables.plan import Slice


def test_a_step_begins_with_the_pulled_values_and_ends_with_what_the_model_has_assigned() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        pulled = v1.placeholder(tf.float32, [2])
        state = ModelState({"mean": pulled, "count": tf.constant(5, tf.int64)})
        mean, count = state.variables["mean"], state.variables["count"]
        seen: list[Any] = []
        for factor in (2.0, 3.0):  # two batches, one after the other
            with state.loaded():
                before = mean.read_value()
                with tf.control_dependencies([before]):
                    changed = [mean.assign(before * factor), count.assign_add(1)]
            seen.append(before)
            state.used(by=changed)
        values = state.values()
        for given in ([1.0, 2.0], [10.0, 20.0]):
            found = session.run({"seen": seen, **values}, {pulled: given})
            np.testing.assert_array_equal(found["seen"], [given, [2 * one for one in given]])
            assert found["mean"].tolist() == [6 * one for one in given] and found["count"] == 7
        assert (mean.name, count.dtype) == ("mean:0", tf.int64), "the names that the model has given"
        assert not v1.global_variables() and not v1.local_variables()


def test_without_state_nothing_is_loaded_and_nothing_waits() -> None:
    with tf.Graph().as_default() as graph:
        state = ModelState({})
        state.used(by=[tf.no_op()])
        with state.loaded():
            one = tf.constant(1)
        assert state.values() == {} and not one.op.control_inputs and len(graph.get_operations()) == 2


def test_state_travels_in_parcels_and_is_split_by_slice() -> None:
    pieces = [
        Slice("mean", 0, 1, 0, (2, 3), "float32", 24, ps=0),
        Slice("count", 0, 1, 0, (), "int64", 8, ps=0),
        Slice("long", 1, 2, 4, (2,), "float32", 8, ps=0),
    ]
    values = {"mean": np.arange(6, dtype=np.float32), "count": np.int64([7]), "long/part_1": np.float32([8, 9])}
    with tf.Graph().as_default(), v1.Session() as session:
        parcels = tuple(pack(pieces, 0))
        given = {name: tf.constant(value) for name, value in values.items()}
        sent = PushedState(parcels, tuple(parcel.join(given) for parcel in parcels))
        with v1.device("/device:CPU:0"):
            there = sent.on_ps()
        assert {vector.device for vector in there.vectors} == {"/device:CPU:0"} and there.parcels == parcels
        found = session.run(there.by_slice())
    assert found["mean"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["count"] == 7
    assert found["long/part_1"].tolist() == [8, 9] and len(found) == 3
    assert PushedState(parcels).by_slice() == {}, "of a replica that pushes none"
