"""Classes that a program reaches under two names: by `tf.train`, and by the private module that had them.

    share_classes()
    from tensorflow.python.training.basic_session_run_hooks import StopAtStepHook       # is tf.train.StopAtStepHook

TensorFlow's own code keeps its modules, whose classes find themselves by these names.
"""

from __future__ import annotations

import importlib
import sys

from ps_train.compat.tf1.contrib import ContribModule, names_of
from ps_train.compat.train import train_names as names

_PACKAGE = "tensorflow.python.training"
_SHARED = {
    "basic_session_run_hooks": ("StopAtStepHook",),
    "device_setter": ("replica_device_setter",),
    "monitored_session": ("MonitoredSession", "MonitoredTrainingSession", "SingularMonitoredSession"),
    "server_lib": ("Server",),
    "session_manager": ("SessionManager",),
    "supervisor": ("Supervisor",),
    "sync_replicas_optimizer": ("SyncReplicasOptimizer",),
    "training": (
        "MonitoredSession", "MonitoredTrainingSession", "Server", "SessionManager", "SingularMonitoredSession",
        "StopAtStepHook", "Supervisor", "SyncReplicasOptimizer", "replica_device_setter",
    ),
}  # fmt: skip


def share_classes() -> None:
    """Gives programs private modules of TensorFlow's training that have the names of `tf.train` made by ps_train."""
    package = importlib.import_module(_PACKAGE)
    for name, shared in _SHARED.items():
        module = importlib.import_module(f"{_PACKAGE}.{name}")
        values = {each: getattr(names, each) for each in shared if hasattr(module, each)}
        values |= {each: getattr(module, each) for each in ("__doc__", "__file__", "__spec__")}
        found = ContribModule(module.__name__, values, names_of(module))
        sys.modules[module.__name__] = found
        setattr(package, name, found)
