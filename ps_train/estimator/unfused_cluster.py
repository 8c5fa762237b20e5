"""Cluster of the unfused engine: one TensorFlow server for each task, and the presence of workers on every ps.

    join_cluster(config)            # a worker: starts its server, and shows to every ps that it lives
    serve_unfused(config)           # a ps: returns when all workers have ended

A worker writes a number into a table of every ps each second, and `_ENDED` when its process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
from collections.abc import Mapping

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.calls import Session
from ps_train.cluster.ports import port_owner
from ps_train.errors import ConfigError, LostTaskError, UnreachableError
from ps_train.estimator.run_config import RunConfig

log = logging.getLogger(__name__)

_BEAT_SECS, _LOOK_SECS, _LAST_SECS = 1.0, 0.2, 5.0
SILENT_SECS = 60.0
"""Seconds without a sign after which a worker counts as gone."""

_ENDED = -1
_CALL = v1.RunOptions(timeout_in_ms=3000)

_servers: dict[str, v1.train.Server] = {}
"""The server of this process: TensorFlow cannot stop one."""


class WorkersGoneDetector:
    """Detector of the end of all workers: a pure function of what they have written, and of the time.

    Args:
      workers: their number.
      now: seconds of a monotonic clock.
      join_secs: seconds within which the first worker must come.
    """

    def __init__(self, workers: int, now: float, join_secs: float) -> None:
        self._workers, self._start, self._join_secs = workers, now, join_secs
        self._last: dict[int, tuple[int, float]] = {}  # worker -> its last number, and when it was new

    def update(self, numbers: Mapping[int, int], now: float) -> bool:
        """Returns whether all workers have ended or are gone.

        Args:
          numbers: worker to the number that it has written last.
          now: seconds of a monotonic clock.

        Raises:
          UnreachableError: no worker came in time.
          LostTaskError: all workers are gone, and none has ended.
        """
        for worker, number in numbers.items():
            if worker not in self._last or self._last[worker][0] != number:
                self._last[worker] = number, now
        if not self._last:
            if now - self._start > self._join_secs:
                raise UnreachableError(f"no worker has come within {now - self._start:.0f}s: start the workers.")
            return False
        news = max(since for _, since in self._last.values())
        if any(number != _ENDED and now - since <= SILENT_SECS for number, since in self._last.values()):
            return False
        if len(self._last) < self._workers and now - news <= SILENT_SECS:
            return False  # one may still be starting
        if all(number != _ENDED for number, _ in self._last.values()):
            raise LostTaskError(f"no sign of any worker for {now - news:.0f}s: all of them are gone.")
        return True


def join_cluster(config: RunConfig) -> None:
    """Starts the server of a worker, and its signs of life, once in a process."""
    if _start_server(config) and config.num_ps_replicas:
        _Presence(config).start()


def serve_unfused(config: RunConfig) -> None:
    """Serves as a ps until all workers have ended.

    Raises:
      ConfigError: the address cannot be served on.
      UnreachableError: no worker came in time.
      LostTaskError: all workers are gone, and none has ended.
    """
    _start_server(config)
    detector = WorkersGoneDetector(
        config.num_worker_replicas, time.monotonic(), config.session_creation_timeout_secs or float("inf")
    )
    with tf.Graph().as_default() as graph:
        table = _table(config.task_id)
        entries = tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=tf.int64, Tvalues=tf.int64)
    filters = v1.ConfigProto(device_filters=[f"/job:ps/task:{config.task_id}"])
    session = Session(_servers[_task(config)].target, graph=graph, config=filters)
    log.info("ps %d serves until %d workers have ended", config.task_id, config.num_worker_replicas)
    while True:
        keys, values = session.run([entries.keys, entries.values])
        if detector.update(dict(zip(keys.tolist(), values.tolist(), strict=True)), time.monotonic()):
            return
        time.sleep(_LOOK_SECS)


class _Presence:
    """The signs of life of a worker's process."""

    def __init__(self, config: RunConfig) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="presence")
        with tf.Graph().as_default() as graph:
            self._number = v1.placeholder(tf.int64, [])
            worker = tf.constant(config.global_id_in_cluster, tf.int64)
            writes = []
            for ps in range(config.num_ps_replicas):
                with v1.device(f"/job:ps/task:{ps}"):
                    writes.append(
                        tf.raw_ops.LookupTableInsertV2(table_handle=_table(ps), keys=worker, values=self._number)
                    )
        self._writes = writes
        target = _servers[_task(config)].target
        self._session = Session(target, graph=graph, config=config.session_config)

    def start(self) -> None:
        """Starts the thread; the process's end ends it."""
        self._thread.start()
        atexit.register(self._end)

    def _beat(self) -> None:
        number = 0
        while not self._ending.is_set():
            number += 1
            self._write(number)
            self._ending.wait(_BEAT_SECS)
        self._write(_ENDED)

    def _write(self, number: int) -> None:
        for write in self._writes:
            with contextlib.suppress(tf.errors.OpError):  # a ps that is gone needs no sign
                self._session.run(write, {self._number: number}, options=_CALL)

    def _end(self) -> None:
        self._ending.set()
        self._thread.join(_LAST_SECS)


def _start_server(config: RunConfig) -> bool:
    """Starts the server of this task; returns False if it runs already."""
    if _task(config) in _servers:
        return False
    settings = v1.ConfigProto()
    if config.session_config is not None:
        settings.gpu_options.CopyFrom(config.session_config.gpu_options)
    address = config.cluster_spec.task_address(config.task_type, config.task_id)
    try:
        server = v1.train.Server(config.cluster_spec, config.task_type, config.task_id, "grpc", settings)
    except tf.errors.OpError as error:
        owner = port_owner(int(address.rpartition(":")[2]))
        raise ConfigError(f"TensorFlow cannot serve on {address}{owner}: {error.message}") from None
    _servers[_task(config)] = server
    return True


def _task(config: RunConfig) -> str:
    return f"{config.task_type}:{config.task_id} of {config.cluster_spec.as_dict()}"


def _table(ps: int) -> tf.Tensor:
    with v1.device(f"/job:ps/task:{ps}"):
        return tf.raw_ops.MutableHashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64, shared_name="ps_train_unfused_workers"
        )
