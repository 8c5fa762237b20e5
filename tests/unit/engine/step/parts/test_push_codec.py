"""Which gradients a codec encodes, in which parcels, and that the ps decodes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts.push_codec import PushCodec, push_codecs
from ps_train.engine.transport.coding import codec_of
from ps_train.engine.transport.parcels import pack, with_header
from ps_train.engine.transport.push_encoding import HEADER_SIZE
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.variables.variables import on_worker
from ps_train.engine.variables.worker_state import OWN, collect_local_state
from tests.support.graphs.steps import spec_of
from tests.support.models.small import Linear


class Mixed(Linear):
    """Variables with several optimizers and dtypes, and one whose gradient touches some rows."""

    def forward(self, features, training):
        shapes = {"fast": tf.float32, "plain": tf.float32, "wide": tf.float64, "rows": tf.float32}
        found = {name: v1.get_variable(name, [8, 3], dtype) for name, dtype in shapes.items()}
        total = found["fast"] + found["plain"] + tf.cast(found["wide"], tf.float32)
        return features @ tf.transpose(total) @ tf.ones([8]) + tf.reduce_sum(tf.gather(found["rows"], [1, 2]))

    def optimizer(self, name, learning_rate):
        momentum = v1.train.MomentumOptimizer(learning_rate, 0.9)
        return {"": v1.train.GradientDescentOptimizer(learning_rate), "fast": momentum}


def part_of(codec: str, num_ps: int = 1) -> tuple[PushCodec, Any]:
    spec = spec_of(Mixed(), num_ps, push_codec=codec)
    (part,) = push_codecs(spec, True)
    return part, spec


@pytest.mark.parametrize(("codec", "groups"), [("int8", [["fast", "plain"]]), ("top_k:0.5", [["fast"], ["plain"]])])
def test_only_dense_float32_is_encoded_each_momentum_in_parcels_of_its_own(codec: str, groups: Any) -> None:
    part, spec = part_of(codec)
    others: list[str] = []

    def plain(slices: Any, ps: int) -> list[Any]:
        assert ps == 0
        others.extend(piece.variable for piece in slices)
        return []

    parcels = part.layout(plain)(spec.plan.slices_on(0), 0)
    found = [sorted(piece.variable for piece in parcel.slices) for parcel in parcels]
    assert sorted(found) == groups and sorted(others) == ["rows", "wide"]
    assert all(parcel.is_encoded and parcel.multiple == codec_of(codec).multiple for parcel in parcels)


def test_a_push_is_decoded_on_the_ps_and_each_is_counted() -> None:
    part, spec = part_of("int8")
    with tf.Graph().as_default():
        parcels = tuple(with_header(part.layout(lambda slices, ps: pack(slices, ps))(spec.plan.slices_on(0), 0), 0, 3))
        random = np.random.default_rng(1)
        values = {piece.name: random.normal(size=24).astype(piece.dtype) for piece in spec.plan.slices_on(0)}
        header = tf.constant([4.0, 0.0, 0.0])
        with on_worker(""):
            given = {name: tf.constant(value) for name, value in values.items()}
            vectors = tuple(one.join(given, header if one.header else None) for one in parcels)
            computed: Any = SimpleNamespace(gradients={piece.variable: given[piece.name] for piece in spec.plan.slices})
            (push,) = part.push(lambda pushes, computed: pushes)([ReceivedPush(0, parcels, vectors)], computed)
        assert HEADER_SIZE == 3 and len(push.vectors) >= 1
        assert sum(v.dtype.size * 24 for v in push.vectors) and any(v.dtype != tf.float32 for v in push.vectors)
        gradients, found_header = push.on_ps().gradients()
        (count,) = (one for one in v1.get_collection(OWN) if one.op.name == "ps_train/pushes")
        with v1.Session() as session:
            session.run(collect_local_state().initializers)
            first, examples = session.run([gradients, found_header.examples])
            session.run(part._kept)
            assert session.run(count) == 1
    assert examples == 4
    for piece in spec.plan.slices_on(0):
        largest = np.abs(values[piece.name]).max()
        error = np.abs(first[piece.name].ravel() - values[piece.name]).max()
        assert error <= (largest / 127 * 1.01 if piece.variable in ("fast", "plain") else 0)
        assert (error > 0) == (piece.variable in ("fast", "plain"))


@pytest.mark.parametrize(
    ("codec", "is_there"), [("none", False), ("int8", True), ("top_k:0.1,int8", True), ("auto", False)]
)
def test_the_part_is_there_for_one_codec(codec: str, is_there: bool) -> None:
    spec = spec_of(Linear(), push_codec=codec)
    assert bool(push_codecs(spec, True)) == is_there
