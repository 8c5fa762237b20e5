"""Where the ps are now: as the host lists said at the start, or as --cluster_file says since.

    whereabouts = Whereabouts(job)
    whereabouts.look().ps[1]            # Address(host="c", port=2222)

The file is read again when it has changed.  What is wrong with it then is said once, and what was known stays.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading

from ps_train.cluster.spec import Cluster
from ps_train.config.job import Job
from ps_train.config.tf_config import read_cluster_file
from ps_train.errors import ConfigError

log = logging.getLogger(__name__)

_FileStamp = tuple[int, int, int]


class ClusterResolver:
    """May be used from several threads.

    Attributes:
      cluster: as it was described when this process started.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._path = job, job.cluster_file
        self._mark: _FileStamp | None = None  # it may have changed since the job was made of it
        self.cluster = self._now = Cluster.of(job)
        self._lock = threading.Lock()

    def current(self) -> Cluster:
        """The cluster with the ps where they are now."""
        mark = _file_stamp(self._path)
        with self._lock:
            if mark is not None and mark != self._mark:
                self._mark = mark
                self._read()
            return self._now

    def _read(self) -> None:
        try:
            ps = Cluster.of(dataclasses.replace(self._job, **read_cluster_file(self._path))).ps
        except ConfigError as error:
            log.warning("%s; until it is mended all stays as it was", str(error).rstrip("."))
            return
        if len(ps) != len(self._now.ps):
            log.warning(
                "cluster_file %s names %d ps now, and this run has %d: it will be the next one's that starts",
                self._path,
                len(ps),
                len(self._now.ps),
            )
            return
        self._now = dataclasses.replace(self._now, ps=ps)


def _file_stamp(path: str) -> _FileStamp | None:
    """What changes whenever the file does; None where there is none at the moment."""
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
