"""The variables of a SavedModel, copied from a checkpoint part by part: they are never in a session.

    saver = CheckpointCopier(plain.variables, CheckpointValues(checkpoint))
    builder.add_meta_graph_and_variables(session, ["serve"], signatures, saver=saver)
    builder.save()
    content = saver.copy()                  # outside of a graph; returns the hash of the variables

Memory is that of a part, 32 MiB, for a model of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues, check_variables
from ps_train.saved.export.coded_rows import CodedRows
from ps_train.saved.values import ContentHash, RowRun, Writer, all_parts, hash_of, spec_of


class CheckpointCopier(v1.train.Saver):
    """A Saver for a SavedModel whose variables come from a checkpoint.

    Args:
      variables: key to variable.
      values: the checkpoint.
      coded: the tables of which the SavedModel has codes; None: it has all rows as they are.

    Raises:
      ModelError: the checkpoint belongs to another model.
    """

    def __init__(self, variables: Mapping[str, Any], values: CheckpointValues, coded: CodedRows | None = None) -> None:
        super().__init__(dict(variables), sharded=True, allow_empty=True)
        self._values, self._coded = values, coded
        kept = {key: variable for key, variable in variables.items() if coded is None or key not in coded.kinds}
        check_variables(values.path, kept, values.kinds)
        self._keys = sorted(kept)
        self._path = ""

    def save(self, sess: Any, save_path: str, *arguments: Any, **options: Any) -> str:
        """Remembers the path to which `copy` writes; the session has no values."""
        self._path = save_path
        return save_path

    def copy(self) -> str:
        """Writes the variables; returns their hash in hexadecimal, as `hash_of_values` makes it."""
        kinds = {key: self._values.kinds[key] for key in self._keys}
        if self._coded is not None:
            kinds |= self._coded.kinds
        content = ContentHash(kinds, {})
        if kinds:
            writer = Writer(self._path)
            for part, array in self._parts():
                content.add(part, hash_of(array))
                writer.add(part.key, array, spec_of(part, kinds[part.key]))
            writer.close()
        return content.text()

    def _parts(self) -> Iterator[tuple[RowRun, Any]]:
        for part in all_parts(self._values.kinds, self._keys):
            yield part, self._values.read(*part)
        if self._coded is not None:
            yield from self._coded.parts(self._values)
