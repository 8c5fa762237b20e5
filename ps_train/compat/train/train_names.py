"""The names of TensorFlow 1's `tf.train`; those for clusters are made right, the others are `tf.compat.v1.train`'s.

    from ps_train import train

    server = train.Server(cluster, job_name="ps", task_index=0)
    server.join()                                   # ends the process when all workers have ended

A script changes one import and nothing else.  The differences are in help: migrate#from-raw-tftrain-scripts.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train.device_setter import GreedyByBytes, replica_device_setter
from ps_train.compat.train.global_step import get_global_step, get_or_create_global_step
from ps_train.compat.train.monitored_session import MonitoredSession, MonitoredTrainingSession, SingularMonitoredSession
from ps_train.compat.train.server import Server
from ps_train.compat.train.sessions import SessionManager
from ps_train.compat.train.stop_at_step import StopAtStepHook
from ps_train.compat.train.supervisor import Supervisor
from ps_train.compat.train.sync_replicas import SyncReplicasOptimizer

__all__ = [
    "ClusterSpec",
    "GreedyByBytes",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "Server",
    "SessionManager",
    "SingularMonitoredSession",
    "StopAtStepHook",
    "Supervisor",
    "SyncReplicasOptimizer",
    "get_global_step",
    "get_or_create_global_step",
    "replica_device_setter",
    "string_input_producer",
]

ClusterSpec = v1.train.ClusterSpec


@functools.wraps(v1.train.string_input_producer)
def string_input_producer(string_tensor: Any, *arguments: Any, **options: Any) -> Any:
    """Returns a queue of texts as TensorFlow's, which asks whether a variable is empty before its session."""
    if isinstance(string_tensor, tf.Variable):  # of match_filenames_once
        string_tensor = tf.convert_to_tensor(string_tensor)
    return v1.train.string_input_producer(string_tensor, *arguments, **options)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'ps_train.train' has no attribute {name!r}")
    try:
        return getattr(v1.train, name)
    except AttributeError:
        raise AttributeError(
            f"ps_train.train has no {name!r}, and neither has tf.compat.v1.train of this TensorFlow"
        ) from None


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(v1.train)})
