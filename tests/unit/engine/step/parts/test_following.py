"""The parts of values that follow measurements; `tests/cluster/test_batch_sizes.py` trains with such sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Job
from ps_train.base.bounds import Bounds
from ps_train.data.batching import ONE_SIZE
from ps_train.engine.step.parts.following import (
    FollowingBatchSize,
    FollowingPushCodec,
    FollowingWaitLimit,
    ScaledRate,
)
from ps_train.engine.step.parts.step_part import Pulled, ToUpdate, Updated
from ps_train.engine.updates.modes.base import WaitLimit
from ps_train.engine.variables.variables import ps_device
from tests.support.graphs.local import LocalSession
from tests.support.graphs.steps import spec_of
from tests.support.models.small import Linear


@pytest.mark.parametrize(
    ("fields", "replicas", "examples", "divisor"),
    [
        ({"scale_learning_rate": "linear"}, 4, 32.0, 0.25),
        ({"scale_learning_rate": "sqrt"}, 4, 32.0, 0.5),
        ({"scale_learning_rate": "linear", "accumulate": 2}, 4, 32.0, 0.5),
        ({"scale_learning_rate": "linear", "update": "sync"}, 4, 64.0, 0.5),
        ({"scale_learning_rate": "linear", "update": "sync", "backup_workers": 2}, 4, 64.0, 0.25),
        ({"scale_learning_rate": "linear"}, 4, 3.0, 1.0),  # the last batch of an epoch
        ({"scale_learning_rate": "linear"}, 4, 0.0, 1.0),
    ],
)
def test_the_divisor_of_the_learning_rate(fields: dict, replicas: int, examples: float, divisor: float) -> None:
    found = ScaledRate(Job(batch_size="8..64", **fields), replicas).divisor(np.float32(examples), 0)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.asarray(found), divisor)


def updated(part: Any) -> ToUpdate:
    """What the update of a part is made from."""
    made: list[ToUpdate] = []

    def update(given: ToUpdate) -> Updated:
        made.append(given)
        return Updated(None, [])  # type: ignore[arg-type]

    part.update(update)(ToUpdate([], None, None, (), {}, (), WaitLimit.fixed(9), [before]))  # type: ignore[arg-type]
    return made[0]


def before(examples: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    return tf.constant(2.0)


def test_the_divisor_is_one_of_several() -> None:
    part = ScaledRate(Job(batch_size="8..64", scale_learning_rate="linear"), 4)
    assert updated(part).rate_divisors == [before, part.divisor]


def test_a_wait_limit_is_the_smallest_at_first_and_then_what_ps_0_has() -> None:
    with tf.Graph().as_default() as graph:
        part = FollowingWaitLimit("max_steps_ahead", Bounds(2, 5))
        limit = updated(part).limit
        value, (gauge,) = limit.value(), part.gauges().values()
        change = part.adapted.variable.assign(4, read_value=False)
        assert part.adapted.variable.device == gauge.device == ps_device(0)
        assert limit.most == 5 and part.adapted.ladder.values == range(2, 6)
        session = LocalSession(graph)
        assert session.run([value, gauge]) == [2, 2]
        session.run(change)
        assert session.run([value, gauge]) == [4, 4] and not part.entries()


def pulled(step: int) -> Any:
    return lambda received: Pulled(
        {}, [tf.constant(0, tf.int64)], tf.constant(step, tf.int64), [], ["read"], None, ["before"]
    )  # type: ignore


def test_a_step_pulls_the_batch_size_of_its_values_and_the_next_batch_has_it() -> None:
    with tf.Graph().as_default() as graph:
        part = FollowingBatchSize(Job(batch_size="4..16"), ahead=0)
        data = Arrays(np.zeros(64, np.float32), np.zeros(64, np.float32))
        given: list[Any] = []
        part.batches(lambda *arguments: given.append(arguments))(data, ONE_SIZE)  # type: ignore
        assert given == [(data, part._worker.batches)]
        with v1.device(ps_device(0)):
            found = part.pull(pulled(step=30))(None)  # type: ignore[arg-type]
        (_, size), (_, follow) = found.read, found.before_batch
        (entry,) = part.entries()
        assert entry.optional and entry.variable is part.adapted.variable
        change = entry.variable.assign([8, 31, 16], read_value=False)
        follows = [part._worker._variable, part._worker._variable.initializer]
        (gauge,) = part.gauges().values()
        local = LocalSession(graph)
        local.run(follows[1])
        assert local.run(follows[0]) == 4
        local.run(change)
        assert local.run(size) == 8, "16 is for step 31 and later"
        local.run(follow)
        assert local.run(follows[0]) == 8 and local.run(gauge) == 16


def test_a_step_pulls_its_codec_and_reads_it_ahead() -> None:
    spec = spec_of(Linear(), push_codec="auto")
    with tf.Graph().as_default() as graph:
        part = FollowingPushCodec(spec, True)
        found = part.pull(pulled(step=1))(None)  # type: ignore[arg-type]
        assert found.read == ["read", part._chosen.number] and part._chosen.number.device == ps_device(0)
        change = part.adapted.variable.assign(1, read_value=False)
        session = LocalSession(graph)
        assert session.run(part._chosen.number) == 0, "none at first"
        session.run(change)
        assert session.run(part._chosen.number) == 1
    assert part.adapted.ladder.values == range(len(spec.job.push_codecs))
