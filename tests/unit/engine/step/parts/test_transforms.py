"""The transforms of a step get the mean gradients, and the values of what the step uses."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.backward import Computed
from ps_train.engine.step.parts.transforms import Transforms
from ps_train.engine.updates.gradients.transforms import l2


@dataclasses.dataclass
class Inputs:
    values: dict[str, tf.Tensor]


def transformed(transforms: list[Any]) -> tuple[dict[str, np.ndarray], Computed, Computed]:
    with tf.Graph().as_default(), v1.Session() as session:
        ones = tf.ones([3, 2])
        values = {"dense": 2 * ones, "sparse": 4 * ones, "other": ones}
        gradients = {"dense": ones, "sparse": ones, "table": ones}
        masks, used = {"sparse": tf.constant([1.0, 0.0, 1.0])}, {"table": tf.constant([0.0, 0.0, 1.0])}
        computed = Computed(
            tf.zeros([]), gradients, masks, {"table": 6 * ones}, used, tf.ones([]), {}, [], tf.zeros([])
        )
        found = Transforms(transforms).compute(lambda inputs, batches: computed)(Inputs(values), None)  # type: ignore[arg-type]
        return session.run(found.gradients), computed, found


def test_rows_that_a_step_does_not_use_have_no_l2() -> None:
    found, computed, after = transformed([l2(0.5)])
    assert found["dense"].tolist() == [[2, 2]] * 3
    assert found["sparse"].tolist() == [[3, 3], [1, 1], [3, 3]]
    assert found["table"].tolist() == [[1, 1], [1, 1], [4, 4]]
    assert dataclasses.replace(after, gradients=computed.gradients) == computed, "nothing else changes"


def test_transforms_follow_each_other_with_the_same_values() -> None:
    seen: list[Any] = []

    def times(factor: float, plus: float) -> Any:
        def transform(gradients: Any, values: Any) -> Any:
            seen.append(values)
            return {name: factor * gradient + plus for name, gradient in gradients.items()}

        return transform

    found, *_ = transformed([times(3.0, 0.0), times(1.0, 5.0)])
    assert found["dense"].tolist() == [[8, 8]] * 3
    assert seen[0] is seen[1] and set(seen[0]) == {"dense", "sparse", "other", "table"}
