"""Checkpoints that a reader keeps while the run removes its own, by hard links beside them.

pins = Pins("/models/run1")
path = pins.pin("/models/run1/model.ckpt-500")      # /models/run1/.pinned-HOST-PID/model.ckpt-500
pins.keep_only({path})                              # removes all others
"""

from __future__ import annotations

import glob
import os
import shutil
import socket
from collections.abc import Collection

from ps_train.engine.run_directory.run_files import link_checkpoint

_PREFIX = ".pinned-"


class Pins:
    """The pinned checkpoints of this process in a local directory.

    Args:
      directory: directory of the checkpoints.
    """

    def __init__(self, directory: str) -> None:
        self._directory, own = directory, f"{_PREFIX}{socket.gethostname()}-"
        self._folder = os.path.join(directory, f"{own}{os.getpid()}")
        for path in glob.glob(os.path.join(glob.escape(directory), f"{glob.escape(own)}*")):  # of killed processes
            pid = path.rpartition("-")[2]
            if not os.path.exists(f"/proc/{pid}") or path == self._folder:
                shutil.rmtree(path, ignore_errors=True)

    def pin(self, checkpoint: str) -> str:
        """Returns the path of a checkpoint that stays.

        Raises:
          FileNotFoundError: the run has removed it.
          OSError: the disk has no room for a copy, where it has no links.
        """
        name = os.path.basename(checkpoint)
        self._remove(name)
        link_checkpoint(checkpoint, self._folder)
        return os.path.join(self._folder, name)

    def keep_only(self, checkpoints: Collection[str] = ()) -> None:
        """Removes all pinned checkpoints but some."""
        names = {os.path.basename(path) for path in checkpoints}
        for file in glob.glob(os.path.join(glob.escape(self._folder), "*.index")):
            if (name := os.path.basename(file).removesuffix(".index")) not in names:
                self._remove(name)
        if not names:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _remove(self, name: str) -> None:
        for file in glob.glob(os.path.join(glob.escape(self._folder), f"{glob.escape(name)}.*")):
            os.remove(file)
