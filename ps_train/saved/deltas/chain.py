"""The chain of deltas of a run: a base, and deltas that lead from one of its checkpoints to another.

    chain = DeltaChain("/models/run1")                   # in /models/run1/deltas; one process at a time
    chain.extend()                                  # adds a delta if there is a new checkpoint; returns its directory

`base/` is the first checkpoint, and `000001/`, `000002/` and so on are the deltas.  The checkpoint that the last one
leads to is kept by hard links in `.checkpoints/`, because the run removes its own.  A delta gets its name when it is
complete, so a process that dies leaves a whole chain.
"""

from __future__ import annotations

import fcntl
import glob
import logging
import os
import shutil

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.base.whole_file import NEW, whole_folder
from ps_train.engine.run_directory.run_checkpoints import is_whole, newest_checkpoint, run_checkpoints, write_list
from ps_train.engine.run_directory.run_files import DELTAS, link_checkpoint, link_or_copy
from ps_train.saved.deltas.applying import apply_deltas
from ps_train.saved.deltas.difference import EqualError, make_delta
from ps_train.saved.deltas.manifest import read_manifest
from ps_train.saved.values import open_saved

log = logging.getLogger(__name__)

BASE = "base"
"""Name of the directory with the first checkpoint."""

_KEPT, _LOCK = ".checkpoints", ".lock"
_DIGITS = 6


class DeltaChain:
    """The chain of deltas of a run; it waits until no other process writes it.

    Args:
      model_dir: local directory of the run.

    Raises:
      ConfigError: the chain is not whole.
    """

    def __init__(self, model_dir: str) -> None:
        self._model_dir, self.directory = model_dir, os.path.join(model_dir, DELTAS)
        os.makedirs(os.path.join(self.directory, _KEPT), exist_ok=True)
        self._lock = os.open(os.path.join(self.directory, _LOCK), os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        for leftover in glob.glob(os.path.join(glob.escape(self.directory), f"*{NEW}")):
            shutil.rmtree(leftover, ignore_errors=True)
        self._keep_only(self.last)

    @property
    def last(self) -> int:
        """Number of the last delta; 0 for the base alone, -1 for an empty chain."""
        if not os.path.isdir(os.path.join(self.directory, BASE)):
            return -1
        names = os.listdir(self.directory)
        return max((int(name) for name in names if name.isdigit() and len(name) == _DIGITS), default=0)

    def extend(self) -> str:
        """Adds the base or a delta if the run has a newer checkpoint than the last; returns its directory or "".

        Raises:
          ConfigError: the chain is not whole.
          DamagedCheckpointError: a file is damaged.
          OSError: a file cannot be written.
        """
        last = self.last
        new = self._kept(last + 1)
        if not self._take_newest(self._kept(last) if last >= 0 else "", new):
            return ""
        if last < 0:
            target = os.path.join(self.directory, BASE)
            with whole_folder(target) as unfinished:
                shutil.copytree(new, unfinished, copy_function=link_or_copy, dirs_exist_ok=True)
        else:
            target = self._delta(last + 1)
            try:
                self._make_delta(last, new, target)
            except EqualError:  # the run has written the same checkpoint again
                shutil.rmtree(self._kept(last))
                os.rename(new, self._kept(last))
                return ""
        self._keep_only(last + 1)
        return target

    def _make_delta(self, last: int, new: str, target: str) -> None:
        """Makes the delta after a number; if its kept checkpoint is damaged, that is made again from the chain."""
        wanted = read_manifest(self._delta(last)).next.hash if last else ""
        try:
            if newest_checkpoint(self._kept(last)) is None:
                raise DamagedCheckpointError(f"{self._kept(last)} is damaged")
            make_delta(open_saved(self._kept(last)), open_saved(new), target, wanted)
        except DamagedCheckpointError as error:
            log.warning("%s; it is made again from the deltas", str(error).rstrip("."))
            shutil.rmtree(self._kept(last))
            self._keep_only(last, and_also=new)
            make_delta(open_saved(self._kept(last)), open_saved(new), target, wanted)

    def _kept(self, number: int) -> str:
        return os.path.join(self.directory, _KEPT, f"{number:0{_DIGITS}}")

    def _delta(self, number: int) -> str:
        return os.path.join(self.directory, f"{number:0{_DIGITS}}")

    def _keep_only(self, number: int, and_also: str = "") -> None:
        """Removes all kept checkpoints but that of a number, which is made again if it is missing, and one other."""
        for name in os.listdir(os.path.join(self.directory, _KEPT)):
            if name not in (os.path.basename(self._kept(number)), os.path.basename(and_also)):
                shutil.rmtree(os.path.join(self.directory, _KEPT, name), ignore_errors=True)
        if number < 0 or os.path.isdir(self._kept(number)):
            return
        base = os.path.join(self.directory, BASE)
        if number == 0:
            shutil.copytree(base, self._kept(0), copy_function=link_or_copy)
            return
        try:
            apply_deltas(open_saved(base), [self._delta(one) for one in range(1, number + 1)], self._kept(number))
        except (ConfigError, DamagedCheckpointError) as error:
            raise ConfigError(f"{str(error).rstrip('.')}. Remove {self.directory} to begin another chain.") from None

    def _take_newest(self, before: str, folder: str) -> bool:
        """Links the newest whole checkpoint of the run into a folder; False if it is that of another folder."""
        for _, path in run_checkpoints(self._model_dir):
            if not is_whole(path):
                continue
            name = os.path.basename(path)
            try:
                kept = os.path.join(before, f"{name}.index")
                if before and os.path.exists(kept) and os.path.samefile(kept, f"{path}.index"):
                    return False
                shutil.rmtree(folder, ignore_errors=True)
                link_checkpoint(path, folder)
                write_list(folder, [name])
            except FileNotFoundError:  # the run has removed it at this moment
                continue
            return True
        return False

    def close(self) -> None:
        """Lets another process write the chain."""
        os.close(self._lock)
