"""Shards of the data that the workers share while they train (dynamic sharding, partitions of a stream)."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.batching import Batching
from ps_train.data.pipeline import Batches
from ps_train.data.shards.shard_batches import ShardedBatches
from ps_train.data.shards.shard_readers import reader_of
from ps_train.engine.step.backward import Computed
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.step_part import MakeBatches, MakeUpdate, Push, StepPart, ToUpdate, Updated
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.base import Removal
from ps_train.engine.updates.shards.shard_ownership import OwnershipTable
from ps_train.engine.updates.shards.shard_progress import ShardProgress
from ps_train.engine.variables.variables import CheckpointEntry, shared_entries

_ADVICE = (
    "the used examples can be restored only with the flags of the saved run (sharding, batch_size, "
    "shard_examples, shuffle_buffer, seed) and the same data; use these, or another --model_dir."
)


class Sharding(StepPart):
    """The part of a step whose batches are of assigned shards.

    Args:
      spec: specification of the replica's graph.

    Attributes:
      assigned: after `batches`, their source.
      ownership: after `update`, the owners of the shards.
    """

    assigned: ShardedBatches
    ownership: OwnershipTable

    def __init__(self, spec: GraphSpec) -> None:
        self._spec = spec
        self._progress: dict[int, ShardProgress] = {}

    def batches(self, batches: MakeBatches) -> MakeBatches:
        """Reads the assigned shards in the place of a fixed share."""

        def made(data: Any, batching: Batching) -> Batches:
            job = self._spec.job
            self.assigned = ShardedBatches(reader_of(data, job), job.max_batch_size, batching)
            return self.assigned.batches

        return made

    def push(self, push: Push) -> Push:
        """Adds the places of the batches in their shards to the push."""

        def pushed(pushes: list[ReceivedPush], computed: Computed) -> list[ReceivedPush]:
            return push([dataclasses.replace(one, progress=tuple(computed.progress)) for one in pushes], computed)

        return pushed

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Counts the examples of the updates as used; frees the shards of a removed replica."""

        def updated(given: ToUpdate) -> Updated:
            count = self.assigned.count
            most = self._spec.job.local_step_limits.upper
            self._progress |= {push.ps: ShardProgress(push.ps, count, most) for push in given.received if push.vectors}
            made = update(given.with_shard_parts(self._progress))
            variables = [on_ps.progress for on_ps in self._progress.values()]
            seats = self._spec.replica.count if self.assigned.reader.is_endless else 0
            self.ownership = OwnershipTable(count, variables, given.global_step, seats)
            removed = v1.placeholder(tf.int64, [], "leaver")
            freed = Removal(self.ownership.release(removed + 1), removed)
            ops = dataclasses.replace(made.ops, removals=[freed, *made.ops.removals])
            return dataclasses.replace(made, ops=ops)

        return updated

    def entries(self) -> list[CheckpointEntry]:
        """Returns the entries of the cursors of each ps, whose key names the layout."""
        variables = {ps: of_ps.progress for ps, of_ps in self._progress.items()}
        name = f"ps_train/progress/{self.assigned.name}"
        return shared_entries(name, variables, self._spec.plan.num_ps, _ADVICE)
