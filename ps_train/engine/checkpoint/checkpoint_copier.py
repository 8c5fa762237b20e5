"""The variables of a SavedModel, copied from a checkpoint part by part: they are never in a session.

    saver = CheckpointCopier(plain.variables, checkpoint)
    builder.add_meta_graph_and_variables(session, ["serve"], signatures, saver=saver)
    builder.save()
    content = saver.copy()                  # outside of a graph; returns the hash of the variables

Memory is that of a part, 32 MiB, for a model of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.engine.checkpoint.contents import check_variables
from ps_train.engine.checkpoint.deltas.saved import ContentHash, Values, Writer, all_parts, hash_of, spec_of


class CheckpointCopier(v1.train.Saver):
    """A Saver for a SavedModel whose variables come from a checkpoint.

    Args:
      variables: key to variable.
      checkpoint: path of the checkpoint.

    Raises:
      ModelError: the checkpoint belongs to another model.
      DamagedCheckpointError: it is damaged.
    """

    def __init__(self, variables: Mapping[str, Any], checkpoint: str) -> None:
        super().__init__(dict(variables), sharded=True, allow_empty=True)
        self._values = Values(checkpoint)
        check_variables(checkpoint, variables, self._values.kinds)
        self._keys = sorted(variables)
        self._path = ""

    def save(self, sess: Any, save_path: str, *arguments: Any, **options: Any) -> str:
        """Remembers the path to which `copy` writes; the session has no values."""
        self._path = save_path
        return save_path

    def copy(self) -> str:
        """Writes the variables; returns their hash in hexadecimal, as `deltas/saved.py` makes it of them alone."""
        kinds = {key: self._values.kinds[key] for key in self._keys}
        content = ContentHash(kinds, {})
        if kinds:
            writer = Writer(self._path)
            for part in all_parts(kinds, self._keys):
                array = self._values.read(part)
                content.add(part, hash_of(array))
                writer.add(part.key, spec_of(part, kinds[part.key]), array)
            writer.close()
        return content.text()
