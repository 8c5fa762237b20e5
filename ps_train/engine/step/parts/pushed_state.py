"""The state that a model assigns itself: worker 0 pushes it beside the gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from ps_train.engine.step.backward import Computed
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.step_part import MakeUpdate, Push, StepPart, ToUpdate, Updated
from ps_train.engine.transport.model_state import PushedState
from ps_train.engine.transport.parcels import pack
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.shard_part import AssignedState


class StateOfModel(StepPart):
    """The part of a step whose model assigns variables.

    Args:
      spec: specification of the replica's graph.
    """

    def __init__(self, spec: GraphSpec) -> None:
        plan, names = spec.plan, set(spec.variables.state())
        self._is_pushed = spec.replica.index == 0
        self._parcels = [
            tuple(pack([piece for piece in plan.slices_on(ps) if piece.variable in names], ps))
            for ps in range(plan.num_ps)
        ]

    def push(self, push: Push) -> Push:
        """Adds the state at the end of the step to the push."""

        def pushed(pushes: list[ReceivedPush], computed: Computed) -> list[ReceivedPush]:
            pieces = {name: tf.reshape(value, [-1]) for name, value in computed.state.items()}
            return push([dataclasses.replace(one, state=self._state(one.ps, pieces)) for one in pushes], computed)

        return pushed

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Assigns the state on each ps with its update."""

        def updated(given: ToUpdate) -> Updated:
            on_ps = enumerate(self._parcels)
            return update(given.with_shard_parts({ps: AssignedState(given.variables) for ps, some in on_ps if some}))

        return updated

    def _state(self, ps: int, pieces: Mapping[str, tf.Tensor]) -> PushedState:
        """Returns the state on a ps, as it is sent there."""
        parcels = self._parcels[ps]
        return PushedState(parcels, tuple(parcel.join(pieces) for parcel in parcels) if self._is_pushed else ())
