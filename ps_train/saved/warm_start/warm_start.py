"""The warm start of a job: what its variables and slots take of a checkpoint, the report, and the writing.

warm = WarmStart(choices, source, entries, device, slots="keep", keeps_step=False)     # in the graph of the step
print(warm.report())
warm.write(session)                                 # after the variables are initialized
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import CHUNK_CALL
from ps_train.engine.run_directory.checkpoint_contents import GLOBAL_STEP, Kind
from ps_train.engine.variables.variables import CheckpointEntry, keys_in
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE
from ps_train.saved.warm_start.choices import FRESH, REMAPPED, TAKEN, UNUSED, Beginning
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint
from ps_train.saved.warm_start.writing import Target, write

KEEP, DROP, REBUILD = "keep", "drop", "rebuild"
_SUMS_OF_SQUARES = {"/Adagrad": "/RowWiseAdagrad", "/RowWiseAdagrad": "/Adagrad"}
"""Slots that are computed from that of another optimizer: a row's sum is the mean of those of its numbers."""

_OWN = "ps_train/"
"""Prefix of the keys of counters, which belong to a run."""


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """A warm start, in the default graph.

    Attributes:
      source: the checkpoint.
      choices: key of each variable, slot and variable of an optimizer to its choice.
      kinds: the same keys to shape and dtype.
      targets: the keys that take something to what is written.
      after: what runs when all is written.
      heading: the first line of the report.
    """

    source: SourceCheckpoint
    choices: Mapping[str, Beginning]
    kinds: Mapping[str, Kind]
    targets: Mapping[str, Target]
    after: tf.Operation
    heading: str

    def write(self, session: v1.Session) -> None:
        """Writes the values into the variables, which are initialized.

        Raises:
          DamagedCheckpointError: the checkpoint cannot be read.
        """
        for key, target in self.targets.items():
            write(session, target, self.source, self.choices[key])
        session.run(self.after, options=CHUNK_CALL)

    def report(self) -> str:
        """Returns the report: a line for each variable, and the sums."""
        lines = [("outcome", "variable", "in the checkpoint", "rows", "bytes", "note")]
        sums: dict[str, tuple[int, int]] = {}
        new_bytes = 0  # of rows without a source, in variables that have others

        def add(outcome: str, key: str, old: str, rows: str, size: int, note: str) -> None:
            lines.append((outcome, key, old, rows, str(size), note))
            count, total = sums.get(outcome, (0, 0))
            sums[outcome] = count + 1, total + size

        for key, choice in self.choices.items():
            shape, dtype = self.kinds[key]
            rows, size = shape[0] if shape else 1, math.prod(shape) * dtype.size
            taken = 0 if choice.outcome == FRESH else rows if choice.route is None else choice.route.rows
            note = choice.note
            if choice.outcome == REMAPPED and taken < rows:
                note = "; ".join(filter(None, [note, f"{rows - taken} start as new"]))
            moved = size // max(1, rows) * taken
            new_bytes += size - moved if taken else 0
            add(choice.outcome, key, choice.source or "-", f"{taken} of {rows}", moved if taken else size, note)
        for key in self.unused():
            shape, dtype = self.source.kinds[key]
            add(UNUSED, "-", key, f"0 of {shape[0] if shape else 1}", math.prod(shape) * dtype.size, "")
        widths = [max(len(line[column]) for line in lines) for column in range(5)]
        table = [
            "  ".join([*(line[i].ljust(widths[i]) for i in range(4)), line[4].rjust(widths[4]), line[5]]).rstrip()
            for line in sorted(lines[1:], key=lambda line: _ORDER.index(line[0]))
        ]
        head = "  ".join([*(lines[0][i].ljust(widths[i]) for i in range(4)), lines[0][4].rjust(widths[4]), lines[0][5]])
        count, total = sums.get(FRESH, (0, 0))
        sums[FRESH] = count, total + new_bytes
        totals = ", ".join(
            f"{name} {count} ({size} bytes)" for name in _ORDER for count, size in [sums.get(name, (0, 0))]
        )
        return "\n".join([self.heading, head, *table, totals])

    def summary(self) -> str:
        """Returns the first and the last line of the report as one line."""
        lines = self.report().splitlines()
        return f"{lines[0]}: {lines[-1]}"

    def unused(self) -> list[str]:
        """Returns the names of the checkpoint's variables that nothing takes."""
        used = {GLOBAL_STEP, *(choice.source for choice in self.choices.values())}
        return sorted(key for key in self.source.kinds if key not in used and not key.startswith(_OWN))


_ORDER = (TAKEN, REMAPPED, FRESH, UNUSED)


def warm_start(
    choices: Mapping[str, Beginning],
    source: SourceCheckpoint,
    entries: Sequence[CheckpointEntry],
    device: str,
    slots: str,
    keeps_step: bool,
) -> WarmStart:
    """Makes the warm start of a job, with the operations that write, in the default graph.

    Args:
      choices: name to choice of the model's variables.
      source: the checkpoint.
      entries: the entries of the job's own checkpoints.
      device: device of the chief.
      slots: KEEP, DROP or REBUILD.
      keeps_step: True if training goes on at the global step of the checkpoint; else it begins at 0.
    """
    by_key: dict[str, list[CheckpointEntry]] = {}
    for entry in entries:
        if not entry.key.startswith(_OWN):
            by_key.setdefault(entry.key, []).append(entry)
    kinds = {key: (some[0].full_shape, some[0].variable.dtype.base_dtype) for key, some in by_key.items()}
    found: dict[str, Beginning] = {}
    for key in by_key:
        if key in choices:
            found[key] = choices[key]
        elif key == GLOBAL_STEP:
            can = keeps_step and GLOBAL_STEP in source.kinds
            found[key] = Beginning(TAKEN, GLOBAL_STEP) if can else Beginning(FRESH, note="the step begins at 0")
        else:
            (former,) = keys_in(source.kinds, by_key[key][:1])
            found[key] = _choice_of_slot(key, former, choices, source, slots, kinds)
    targets = {key: Target(by_key[key], device) for key, choice in found.items() if choice.outcome != FRESH}
    step = source.global_step
    heading = f"warm start from {source.shown}" + (f", step {step}" if step is not None else "")
    return WarmStart(source, found, kinds, targets, tf.group(*v1.get_collection(AFTER_RESTORE)), heading)


def _choice_of_slot(
    key: str,
    former: str,
    choices: Mapping[str, Beginning],
    source: SourceCheckpoint,
    slots: str,
    kinds: Mapping[str, Kind],
) -> Beginning:
    """Returns the choice of a slot, or of a variable that an optimizer has for all of them.

    Args:
      key: of the slot in checkpoints of this job.
      former: its key in the checkpoint, if that is of an earlier version.
      choices: see `warm_start`.
      source: see `warm_start`.
      slots: see `warm_start`.
      kinds: the shape and dtype of each key.
    """
    if slots == DROP:
        return Beginning(FRESH, note="slots are dropped")
    owner = max((name for name in choices if key.startswith(f"{name}/")), key=len, default="")
    before = choices[owner] if owner else Beginning(TAKEN)
    if before.outcome == FRESH:
        return Beginning(FRESH)
    kind = key[len(owner) :]
    old = _slot_name(f"{before.source}{kind}" if owner else former, source)
    if not old and owner and slots == REBUILD and (rebuilt := _rebuilt(kind, before, source, kinds[key])) is not None:
        return rebuilt
    if not old:
        return Beginning(FRESH, note="of another optimizer" if owner else "")
    (shape, dtype), (old_shape, old_dtype) = kinds[key], source.kinds[old]
    by_row = owner and before.route is not None and shape[:1] == kinds[owner][0][:1]
    fits = (
        shape[1:] == old_shape[1:] and old_shape[:1] == source.kinds[before.source][0][:1]
        if by_row
        else shape == old_shape
    )
    if dtype != old_dtype or not fits:
        return Beginning(FRESH, note=f"{old}: another shape or dtype")
    return dataclasses.replace(before, source=old) if by_row else Beginning(TAKEN, old)


def _rebuilt(kind: str, before: Beginning, source: SourceCheckpoint, wanted: Kind) -> Beginning | None:
    """Returns the choice of a slot that is computed from that of another optimizer; None if there is none."""
    old = _slot_name(f"{before.source}{_SUMS_OF_SQUARES.get(kind, kind)}", source)
    if not old or source.kinds[old][1] != wanted[1]:
        return None
    shape = wanted[0][1:]

    def read(begin: int, count: int) -> np.ndarray[Any, Any]:
        sums = source.read(old, begin, count)
        if sums.ndim > len(shape) + 1:
            return sums.mean(tuple(range(len(shape) + 1, sums.ndim)), dtype=sums.dtype)
        return np.broadcast_to(
            sums.reshape(len(sums), *[1] * len(shape)) if sums.ndim == 1 else sums, (len(sums), *shape)
        )

    return Beginning(REMAPPED, old, "rebuilt", before.route, read)


def _slot_name(name: str, source: SourceCheckpoint) -> str:
    """Returns the name of a slot; TensorFlow 1 puts the scope of the optimizer before it.  "" if there is none."""
    if name in source.kinds:
        return name
    found = [key for key in source.kinds if key.endswith(f"/{name}")]
    return found[0] if len(found) == 1 else ""
