"""Cluster resolver: the current addresses of the ps, from the host lists or from --cluster_file.

    resolver = ClusterResolver(job)
    resolver.current().ps[1]            # Address(host="c", port=2222)

The file is read again when it has changed.  An error in it is logged once, and the addresses stay as they were.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job
from ps_train.config.tf_config import read_cluster_file

log = logging.getLogger(__name__)

_FileStamp = tuple[int, int, int]


class ClusterResolver:
    """Resolves the addresses of the ps.  Safe to use from several threads.

    Args:
      job: names the host lists and the cluster file.

    Attributes:
      cluster: as described when this process started.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._path = job, job.cluster_file
        self._file_stamp: _FileStamp | None = None  # the file may have changed since the job was made from it
        self.cluster = self._current = Cluster.of(job)
        self._lock = threading.Lock()

    def current(self) -> Cluster:
        """Returns the cluster with the current addresses of the ps."""
        file_stamp = _file_stamp(self._path)
        with self._lock:
            if file_stamp is not None and file_stamp != self._file_stamp:
                self._file_stamp = file_stamp
                self._read()
            return self._current

    def _read(self) -> None:
        try:
            found = {"ps_hosts": (), **read_cluster_file(self._path)}
            ps = Cluster.of(dataclasses.replace(self._job, **found)).ps
        except ConfigError as error:
            log.warning("%s; the addresses stay as they were until the file is valid", str(error).rstrip("."))
            return
        if len(ps) != len(self._current.ps):
            log.warning(
                "cluster_file %s names %d ps now, and this run has %d: the file takes effect in the next run",
                self._path,
                len(ps),
                len(self._current.ps),
            )
            return
        self._current = dataclasses.replace(self._current, ps=ps)


def _file_stamp(path: str) -> _FileStamp | None:
    """Returns a value that changes whenever the file does; None where there is no file at present."""
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
