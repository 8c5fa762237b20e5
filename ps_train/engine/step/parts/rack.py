"""A rack: its workers pull from one of them, and push to the ps as one replica."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from ps_train.cluster.topology import RackPlace, Topology
from ps_train.config.job import Task
from ps_train.engine.racks.rack_ops import RackOps
from ps_train.engine.racks.rack_round import RackRound
from ps_train.engine.step.backward import Computed
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.step_part import MakeUpdate, Pull, Pulled, Push, StepPart, ToUpdate, Updated
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.base import Replica


class Rack(StepPart):
    """The part of a step of a worker in a rack.

    Args:
      spec: specification of the replica's graph.
      place: the worker's place among the racks.

    Attributes:
      ops: after `update`, what members and aggregator run.
    """

    ops: RackOps
    _round: RackRound

    def __init__(self, spec: GraphSpec, place: RackPlace) -> None:
        self._place, self._replica, self._max_steps = place, spec.replica, spec.job.max_steps

    def pusher(self, replica: Replica) -> Replica:
        """Returns the rack, in the place of its worker."""
        return Replica(self._place.index, self._place.count, self._place.count)

    def pull(self, pull: Pull) -> Pull:
        """Reads the values that the aggregator has published; the aggregator's relay publishes them."""
        rack = self._round = RackRound(self._place, self._max_steps)

        def pulled(received: Callable[[tf.Tensor], tf.Tensor]) -> Pulled:
            found = pull(lambda vector: received(rack.received(vector)))
            rack.publish(found.versions, found.step)
            return dataclasses.replace(found, step=rack.step, answers=[rack.version] * len(found.answers))

        return pulled

    def push(self, push: Push) -> Push:
        """Adds the push to the rack's; what the ps get is the rack's sum."""

        def pushed(pushes: list[ReceivedPush], computed: Computed) -> list[ReceivedPush]:
            self._train, self._step_after = self._round.visit(pushes, self._replica)
            return push(self._round.sums(), computed)

        return pushed

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Makes the update the relay's; a worker's step ends when the next values are published."""

        def updated(given: ToUpdate) -> Updated:
            made = update(given)
            self.ops = self._round.ops(made.ops.train)
            own = dataclasses.replace(made.ops, train=[self._train], step_after=self._step_after)
            return dataclasses.replace(made, ops=own)

        return updated


def racks_of(spec: GraphSpec, topology: Topology, task: Task) -> list[Rack]:
    """Returns the part in a list, which is empty for a job without racks."""
    return [] if topology.is_flat else [Rack(spec, topology.place(task))]
