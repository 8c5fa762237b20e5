"""Probe of the chief's directory by each ps: may it read and write files there?

    probe = DirectoryProbe([0, 1])                      # adds operations to the default graph, on the chief's device
    found, refused = probe.find(session, "/models/run1")    # {0}, "ps:1 does not see model_dir=/models/run1"

The chief makes a directory with a random name and a file in it.  A ps that reads the file writes another, which the
chief reads.  So another directory of the same name, or one in which the ps may not write, is noticed.
"""

from __future__ import annotations

import glob
import os
import shutil
import uuid
from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import CHUNK_CALL, PS_LOST_ERRORS
from ps_train.engine.variables.variables import ps_device

_PREFIX = "writer_probe-"


class DirectoryProbe:
    """The probe by some ps.

    Args:
      ps: their indexes.
    """

    def __init__(self, ps: Sequence[int]) -> None:
        self._path = v1.placeholder(tf.string, [], "probed_path")
        self._text = v1.placeholder(tf.string, [], "probed_text")
        self._reads, self._writes = {}, {}
        for one in ps:
            with tf.device(ps_device(one)):
                self._reads[one] = tf.io.read_file(self._path)
                self._writes[one] = tf.io.write_file(self._path, self._text)

    def find(self, session: v1.Session, directory: str) -> tuple[frozenset[int], str]:
        """Returns the ps that may read and write in a directory of the chief, and why another ps may not.

        Args:
          session: a session of the graph.
          directory: absolute path of the directory.

        Raises:
          tf.errors.OpError: a ps was lost.
          OSError: the chief itself cannot write there.
        """
        for leftover in glob.glob(os.path.join(glob.escape(directory), f"{_PREFIX}*")):
            shutil.rmtree(leftover, ignore_errors=True)
        text = uuid.uuid4().hex
        folder = os.path.join(directory, _PREFIX + text)
        os.makedirs(folder)
        try:
            with open(os.path.join(folder, "chief"), "w") as file:
                file.write(text)
            refused = {ps: self._refusal(session, ps, folder, text) for ps in self._reads}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found = frozenset(ps for ps, why in refused.items() if not why)
        return found, next((f"ps:{ps} {why} {directory}" for ps, why in refused.items() if why), "")

    def _refusal(self, session: v1.Session, ps: int, folder: str, text: str) -> str:
        own = os.path.join(folder, f"ps_{ps}")
        try:
            if session.run(self._reads[ps], {self._path: os.path.join(folder, "chief")}, CHUNK_CALL) != text.encode():
                return "does not see the chief's"
            session.run(self._writes[ps], {self._path: own, self._text: text}, CHUNK_CALL)
            with open(own) as file:
                return "" if file.read() == text else "does not write into the chief's"
        except PS_LOST_ERRORS:
            raise
        except tf.errors.NotFoundError:
            return "does not see the chief's"
        except (tf.errors.OpError, OSError):
            return "may not write into"
