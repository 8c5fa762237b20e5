"""Updates that each ps has made, read from a checkpoint of a model whose updates add one to each element.

With one ps, and under `sync`, these are exactly the steps.  With two ps:

    ps 0      counts the global step in the same locked part as its update: exactly the number of steps
    bounded   a worker that dies in the middle of a push leaves an update on one ps only (`Torn.pushes`)
    async     the same; and ps 1 has as many updates less, if it was lost, or more, if ps 0 was lost, as the chief has
              said; in the second case also those that the chief had not heard of (`Torn.unheard`)
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Torn:
    """What may make the number of updates on ps 1 differ from that of ps 0.

    Attributes:
      pushes: how many pushes may have reached one ps and not the other: one for each worker that was struck, and one of
        each worker when a ps was struck.  A worker has one push on its way at a time.
      less: how many updates of ps 1 were lost, as a chief has said.
      more: how many updates of ps 0 were lost and made again, as a chief has said.
      unheard: how many more there may have been: others train on while the chief makes its burst or is gone.
    """

    pushes: int = 0
    less: int = 0
    more: int = 0
    unheard: int = 0

    def bounds(self, update: str, steps: int) -> tuple[int, int]:
        """Returns the fewest and the most updates that ps 1 may have made in so many steps."""
        if update == "sync":
            return steps, steps
        if update == "bounded":  # what a lost ps takes with it is made again on both
            return steps - self.pushes, steps + self.pushes
        lost = self.more - self.less
        return steps + lost - self.pushes, steps + lost + self.pushes + self.unheard


def updates_in(path: str) -> list[int]:
    """Returns how many updates each of the two variables has got."""
    reader = tf.train.load_checkpoint(path)
    values = [reader.get_tensor(name) for name in ("first", "second")]
    assert all(len({*value}) == 1 for value in values), f"an update is made whole: {values}"
    return [int(value[0]) for value in values]
