"""State of one moment, which is written to a checkpoint while updates go on.

    snapshot = Snapshot(entries, step.ps.old_rows, num_ps=2, limit_bytes=1 << 30)
    session.run(snapshot.prepare)
    session.run(snapshot.cut)           # while no push changes the variables
    ...                                 # read `snapshot.copies` and `snapshot.tables`, while updates go on
    session.run(snapshot.drop)

Small and dense variables are copied (`shadow_copies.py`), and the rows of large tables are kept when an update is about
to write them (`variables/old_rows.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import tensorflow as tf

from ps_train.engine.checkpoint.shadow_copies import ShadowCopies, bytes_by_ps
from ps_train.engine.variables.old_rows import OldRows, cut, end_cut
from ps_train.engine.variables.variables import CheckpointEntry, ps_index

log = logging.getLogger(__name__)


class Snapshot:
    """The snapshot of stored variables.

    Args:
      entries: the variables.
      old_rows: the groups of large variables of which updates keep old rows.
      num_ps: the number of ps.
      limit_bytes: largest number of bytes that the copies and, for themselves, the old rows may take on a ps.  Larger
        copies are not made.

    Attributes:
      is_copied: False if there are no copies.  `copies` are then the variables themselves, and must be read while no
        push changes them.
      copies: the entries of all other variables.
      tables: the groups, with the entry of each of their variables.
      prepare: operation that makes room; to run before `cut`.
      cut: operation that takes the snapshot.
      drop: operation that frees the memory.
      kept_bytes: int64 [num_ps], the bytes of old rows on each ps.
      limit_bytes: see above.
    """

    def __init__(
        self, entries: Sequence[CheckpointEntry], old_rows: Sequence[OldRows], num_ps: int, limit_bytes: int
    ) -> None:
        self.limit_bytes = limit_bytes
        by_variable = {id(entry.variable): entry for entry in entries}
        self.tables = [(old, [by_variable[id(variable)] for variable in old.variables]) for old in old_rows]
        kept = {id(variable) for old in old_rows for variable in old.variables}
        others = [entry for entry in entries if id(entry.variable) not in kept]
        self.is_copied = _are_small(others, limit_bytes)
        shadows = ShadowCopies(others) if self.is_copied else None
        self.copies = shadows.entries if shadows else others
        cut_on = sorted({ps_index(old.variables[0]) for old in old_rows})
        ended = [end_cut(ps) for ps in cut_on]
        dropped = [old.drop(ended) for old in old_rows]
        self.drop = tf.group(*dropped, *([shadows.drop] if shadows else []))
        self.prepare = tf.group(*[old.prepare([one]) for old, one in zip(old_rows, dropped, strict=True)])
        self.cut = tf.group(*[cut(ps) for ps in cut_on], *([shadows.copy] if shadows else []))
        on_ps: dict[int, list[tf.Tensor]] = {ps: [] for ps in range(num_ps)}
        for old in old_rows:
            on_ps[ps_index(old.variables[0])].append(old.kept_bytes())
        self.kept_bytes = tf.stack([tf.add_n(some) if some else tf.constant(0, tf.int64) for some in on_ps.values()])


def _are_small(entries: Sequence[CheckpointEntry], limit_bytes: int) -> bool:
    sizes = bytes_by_ps(entries)
    largest = max(sizes, key=sizes.__getitem__)
    if sizes[largest] <= limit_bytes:
        return True
    log.info(
        "the variables of ps:%d other than large tables take %.0f MiB, more than max_snapshot_mib=%d: they are not "
        "copied, and pushes are held while they are written",
        largest,
        sizes[largest] / (1 << 20),
        limit_bytes >> 20,
    )
    return False
