"""Ownership of data shards: a variable on ps 0 that replicas change by compare-and-set.

    ownership = OwnershipTable(shards=64, progress=[progress.progress, ...], global_step=update_count)
    session.run(ownership.read)
    session.run(ownership.compare_and_set, ownership.feeds({3: (0, 2)}))      # shard 3, which is free, to replica 1

Ownership only keeps two replicas from doing the same work.  The progress of the shards (`shard_progress.py`) alone
decides which examples are used, so checkpoints do not contain ownership.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import ps_device, ps_index, zeros_variable

_LOCK = "ps_train_lock/holders"


class OwnershipTable:
    """The owner of each shard.

    Args:
      shards: number of shards.
      progress: variable of each ps that receives pushes; see `ShardProgress`.
      global_step: variable of the global step.
      seats: number of replicas that may show by a seat that they share the shards; seats are owned like shards, and
        follow them.  0 for none.

    Attributes:
      read: fetches `owners` int64 [shards + seats], `progress` int64 [ps, shards] and `step` int64 scalar.
      compare_and_set: fetches the same after the fed changes; a replica that lost a race reads the other owner.
      begin: fetches the same after cursors that are 0 are set to the fed ones (`begin_feeds`) on all ps; None without
        seats.  The first ps decides if several replicas do so at once.
    """

    def __init__(self, shards: int, progress: Sequence[Any], global_step: Any, seats: int = 0) -> None:
        self._progress, self._global_step = progress, global_step
        self._shards = v1.placeholder(tf.int64, [None], "swapped_shards")
        self._before = v1.placeholder(tf.int64, [None], "swapped_before")
        self._after = v1.placeholder(tf.int64, [None], "swapped_after")
        with tf.device(ps_device(0)):
            self._owners = zeros_variable("ps_train/holders", tf.int64, [shards + seats])
        self.read = self._snapshot(self._owners.read_value(), [])
        self.compare_and_set = self._compare_and_set()
        self._cursors = v1.placeholder(tf.int64, [shards], "begun_cursors") if seats else None
        self.begin = None if self._cursors is None else self._begin(self._cursors)

    def begin_feeds(self, cursors: Mapping[int, int]) -> dict[Any, Any]:
        """Returns the feeds of `begin`: the first cursors of some shards."""
        assert self._cursors is not None, "the table has seats"
        fed = np.zeros(self._cursors.shape, np.int64)
        fed[[*cursors]] = [*cursors.values()]
        return {self._cursors: fed}

    def feeds(self, changes: Mapping[int, tuple[int, int]]) -> dict[Any, Any]:
        """Returns the feeds of `compare_and_set`.

        Args:
          changes: shard to (expected owner, new owner), in the numbers of `policy.py`.
        """
        pairs = np.array([*changes.values()], np.int64).reshape(-1, 2)
        return {self._shards: [*changes], self._before: pairs[:, 0], self._after: pairs[:, 1]}

    def release(self, owner: tf.Tensor) -> tf.Operation:
        """Frees all shards of an owner (int64 scalar)."""

        def body() -> tuple[list[tf.Operation], None]:
            owners = self._owners.read_value()
            kept = tf.where(tf.equal(owners, owner_on_ps), tf.zeros_like(owners), owners)
            return [self._owners.assign(kept, read_value=False)], None

        with tf.device(ps_device(0)):
            owner_on_ps = tf.identity(owner)
            return with_mutex(_LOCK, [owner_on_ps], body)[0]

    def _begin(self, cursors: tf.Tensor) -> dict[str, tf.Tensor]:
        for variable in self._progress:
            with tf.device(ps_device(ps_index(variable))):
                cursors = self._begin_on(variable, tf.identity(cursors))
        with tf.device(ps_device(0)), tf.control_dependencies([cursors]):
            owners = self._owners.read_value()
        return self._snapshot(owners, [owners])

    def _begin_on(self, variable: Any, wanted: tf.Tensor) -> tf.Tensor:
        """Sets the cursors that are 0 on one ps, under the mutex of its updates; returns those that were wanted."""

        def body() -> tuple[list[tf.Operation], tf.Tensor]:
            present = variable.read_value()
            after = tf.where(tf.equal(present, 0), wanted, present)
            return [variable.assign(after, read_value=False)], tf.where(wanted > 0, after, tf.zeros_like(after))

        done, begun = with_mutex(mutex_of(ps_index(variable)), [wanted], body)
        with tf.control_dependencies([done]):
            return tf.identity(begun)

    def _compare_and_set(self) -> dict[str, tf.Tensor]:
        with tf.device(ps_device(0)):
            shards, before, after = (tf.identity(feed) for feed in (self._shards, self._before, self._after))

            def body() -> tuple[list[tf.Operation], None]:
                current = tf.gather(self._owners.read_value(), shards)
                changed = tf.where(tf.equal(current, before), after, current)
                return [self._owners.scatter_nd_update(shards[:, tf.newaxis], changed).op], None

            done, _ = with_mutex(_LOCK, [shards, before, after], body)
            with tf.control_dependencies([done]):
                owners = self._owners.read_value()
        return self._snapshot(owners, [owners])

    def _snapshot(self, owners: tf.Tensor, after: list[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns owners and progress; progress is read after `after`.

        A new owner must see progress that no earlier owner still advances, so the order of the reads matters.
        """
        progress = []
        for variable in self._progress:
            with tf.device(ps_device(ps_index(variable))), tf.control_dependencies(after):
                progress.append(variable.read_value())
        with tf.device(ps_device(0)):
            return {"owners": owners, "progress": tf.stack(progress), "step": self._global_step.read_value()}
