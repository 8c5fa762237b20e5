"""The state of a model travels to its ps beside the gradients, from replica 0 alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts.pushed_state import StateOfModel
from ps_train.engine.step.parts.step_part import ToUpdate, Updated
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.base import Replica, WaitLimit
from ps_train.engine.updates.modes.shard_part import AssignedState
from tests.support.graphs.steps import Averaging, spec_of

VALUES = {"most": np.float32([1, 2, 3]), "count": np.int64(7)}


def pushed(index: int, num_ps: int = 3) -> tuple[list[dict[str, Any]], list[list[str]], Any]:
    """What each ps receives, which slices it knows of, and the specification."""
    spec = spec_of(Averaging(), num_ps, Replica(index, 2, 2))
    with tf.Graph().as_default(), v1.Session() as session:
        computed: Any = SimpleNamespace(state={name: tf.constant(value) for name, value in VALUES.items()})
        pushes = [ReceivedPush(ps, (), ()) for ps in range(num_ps)]
        part = StateOfModel(spec)
        found = part.push(lambda pushes, given: pushes if given is computed else [])(pushes, computed)
        assert [push.ps for push in found] == [*range(num_ps)]
        slices = [[piece.name for parcel in push.state.parcels for piece in parcel.slices] for push in found]
        return [session.run(push.state.by_slice()) for push in found], slices, spec


def test_each_ps_gets_the_state_that_it_holds() -> None:
    found, slices, spec = pushed(0)
    for ps, (values, names) in enumerate(zip(found, slices, strict=True)):
        on_ps = {piece.name for piece in spec.plan.slices_on(ps) if piece.variable in VALUES}
        assert set(names) == set(values) == on_ps
    np.testing.assert_equal({name: value for one in found for name, value in one.items()}, VALUES)


def test_other_replicas_push_none_of_which_the_ps_knows_the_form() -> None:
    found, slices, _ = pushed(1)
    assert found == [{}] * 3 and sorted(name for names in slices for name in names) == sorted(VALUES)


@pytest.mark.parametrize("index", [0, 1])
def test_the_update_assigns_it_on_each_ps_that_holds_some(index: int) -> None:
    spec = spec_of(Averaging(), 5, Replica(index, 2, 2))
    given = ToUpdate([], None, None, (), {"most": object()}, (), WaitLimit.fixed(0))  # type: ignore[arg-type]
    made: list[ToUpdate] = []

    def update(given: ToUpdate) -> Updated:
        made.append(given)
        return Updated(None, [])  # type: ignore[arg-type]

    StateOfModel(spec).update(update)(given)
    parts = made[0].shard_parts
    holding = {piece.ps for piece in spec.plan.slices if piece.variable in VALUES}
    assert set(parts) == holding and 0 < len(holding) < 5
    assert {type(part) for some in parts.values() for part in some} == {AssignedState}
