"""Who holds which shard of the data: a variable on ps 0 that replicas change by compare-and-swap.

    handout = Handout(shards=64, progress=[ledger.progress, ...], global_step=clock)
    session.run(handout.look)
    session.run(handout.swap, handout.feeds({3: (0, 2)}))      # shard 3 from nobody to replica 1, if it is nobody's

Nothing depends on it but that two do not do the same work: what counts is in the ledgers (`updates/ledger.py`).  So it
is not saved, and may be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.variables import ps_device, ps_of
from ps_train.updates.lock import under_lock

_LOCK = "ps_train_lock/holders"


class Handout:
    """Args:
    progress: of each ps that is pushed to, the variable; see `Ledger`.

    Attributes:
      look: to be fetched: `holders` int64 [shards], `progress` int64 [ps, shards], `step` int64 scalar.
      swap: the same, after the changes that are fed; who has lost a race finds another holder.
    """

    def __init__(self, shards: int, progress: Sequence[Any], global_step: Any) -> None:
        self._progress, self._global_step = progress, global_step
        self._shards = v1.placeholder(tf.int64, [None], "swapped_shards")
        self._before = v1.placeholder(tf.int64, [None], "swapped_before")
        self._after = v1.placeholder(tf.int64, [None], "swapped_after")
        with tf.device(ps_device(0)):
            self._holders = v1.get_variable(
                "ps_train/holders", [shards], tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True
            )
        self.look = self._seen(self._holders.read_value(), [])
        self.swap = self._swapped()

    def feeds(self, changes: Mapping[int, tuple[int, int]]) -> dict[Any, Any]:
        """Of shards: who must have it, and who is to have it."""
        pairs = np.array([*changes.values()], np.int64).reshape(-1, 2)
        return {self._shards: [*changes], self._before: pairs[:, 0], self._after: pairs[:, 1]}

    def free(self, holder: tf.Tensor) -> tf.Operation:
        """Takes everything from a holder (int64 scalar)."""

        def body() -> tuple[list[tf.Operation], None]:
            holders = self._holders.read_value()
            kept = tf.where(tf.equal(holders, here), tf.zeros_like(holders), holders)
            return [self._holders.assign(kept, read_value=False)], None

        with tf.device(ps_device(0)):
            here = tf.identity(holder)
            return under_lock(_LOCK, [here], body)[0]

    def _swapped(self) -> dict[str, tf.Tensor]:
        with tf.device(ps_device(0)):
            shards, before, after = (tf.identity(fed) for fed in (self._shards, self._before, self._after))

            def body() -> tuple[list[tf.Operation], None]:
                present = tf.gather(self._holders.read_value(), shards)
                changed = tf.where(tf.equal(present, before), after, present)
                return [self._holders.scatter_nd_update(shards[:, tf.newaxis], changed).op], None

            done, _ = under_lock(_LOCK, [shards, before, after], body)
            with tf.control_dependencies([done]):
                holders = self._holders.read_value()
        return self._seen(holders, [holders])

    def _seen(self, holders: tf.Tensor, after: list[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Who has a shard now found it where nobody moves it any more: so progress is read after that."""
        progress = []
        for variable in self._progress:
            with tf.device(ps_device(ps_of(variable))), tf.control_dependencies(after):
                progress.append(variable.read_value())
        with tf.device(ps_device(0)):
            return {"holders": holders, "progress": tf.stack(progress), "step": self._global_step.read_value()}
