"""The names of `tf.distribute` that a program finds under `python -m ps_train run`.

    replaced = install()
    tf.distribute.MultiWorkerMirroredStrategy()         # workers of ps_train, if TF_CONFIG names several

| name | means |
|---|---|
| ParameterServerStrategy | ps and workers: those of TF_CONFIG, or processes of this machine |
| MultiWorkerMirroredStrategy | the workers of TF_CONFIG, in rounds; they are the ps if it names none |
| MirroredStrategy | the same, where each worker uses all its GPUs |
| Server | a task that serves until the program is over |
| ClusterCoordinator | one worker, this process |

In one process, without TF_CONFIG, the two mirrored strategies are TensorFlow's own.  A model that is made outside of
every scope trains on the cluster of TF_CONFIG too.
"""

from __future__ import annotations

import importlib
import logging
import os
import types
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.compat.distribute import legacy_keras
from ps_train.compat.distribute.coordinator import ClusterCoordinator
from ps_train.compat.distribute.replaced import Replaced
from ps_train.compat.distribute.server import Server, cluster_flags
from ps_train.compat.distribute.strategy import ParameterServerStrategy, redirect_fit, train_all_models
from ps_train.modeling.keras.tracing import check_keras

log = logging.getLogger(__name__)

_HERE = ("localhost", "127.0.0.1", "[::1]")
_MODULES = (tf.distribute, tf.compat.v2.distribute)


def install() -> Replaced:
    """Replaces the names; returns what gives them back.

    Raises:
      ConfigError: `tf.keras` is not Keras 3 on TensorFlow, or TF_CONFIG is wrong.
    """
    check_keras()
    redirect_fit()
    replaced = Replaced()
    legacy_keras.install(replaced)
    ours = {
        "ParameterServerStrategy": _ParameterServer,
        "MultiWorkerMirroredStrategy": _or_own(tf.distribute.experimental.MultiWorkerMirroredStrategy, _MultiWorker),
        "MirroredStrategy": _or_own(tf.distribute.MirroredStrategy, _Mirrored),
        "Server": Server,
    }
    for module in _MODULES:
        for name, value in ours.items():
            for owner in (module, module.experimental):
                if name in vars(owner):
                    replaced.attribute(owner, name, value)
        for owner in (module.coordinator, module.experimental.coordinator):
            replaced.attribute(owner, "ClusterCoordinator", ClusterCoordinator)
    _make_importable(replaced)
    if cluster := _cluster_of_tf_config():
        train_all_models(lambda: ParameterServerStrategy(**_ps_of(cluster)))
        replaced.at_the_end(lambda: train_all_models(None))
    return replaced


def _make_importable(replaced: Replaced) -> None:
    """Lets `from tensorflow.distribute import NAME` find the names of `tf.distribute`.

    TensorFlow's folder of that name hides the module that `tf.distribute` is.
    """
    for path in ("", ".experimental"):
        folder, module = importlib.import_module(f"tensorflow.distribute{path}"), tf.distribute
        module = module.experimental if path else module
        for name in vars(module).keys() - vars(folder).keys():
            if not name.startswith("_"):
                replaced.attribute(folder, name, getattr(module, name))
                if isinstance(getattr(module, name), types.ModuleType):
                    replaced.imported(f"{folder.__name__}.{name}", getattr(module, name))


def _cluster_of_tf_config() -> dict[str, tuple[str, ...]]:
    """Returns the host lists of TF_CONFIG by the names of flags; none if it names no task that trains."""
    job = parse_flags([], os.environ).job
    hosts = {name: getattr(job, name) for name in ("ps_hosts", "worker_hosts", "chief_hosts")}
    return {name: each for name, each in hosts.items() if each} if job.worker_hosts or job.chief_hosts else {}


def _ps_of(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the flags of a cluster that may have no ps."""
    return {} if cluster.get("ps_hosts") else {"ps_on_workers": True}


def _cluster_of(resolver: Any) -> dict[str, Any]:
    """Returns the flags of the cluster that a program's resolver names; none for that of TF_CONFIG, or without one.

    Raises:
      ConfigError: this process has no task in a cluster of other machines.
    """
    if resolver is None or _cluster_of_tf_config() or not (spec := resolver.cluster_spec()):
        return {}
    hosts = cluster_flags(spec)
    if resolver.task_type:
        job = "chief" if resolver.task_type == "master" else resolver.task_type
        return {**hosts, "job_name": job, "task_index": resolver.task_id or 0}
    elsewhere = [host for each in hosts.values() for host in each if host.rpartition(":")[0] not in _HERE]
    if elsewhere:
        raise ConfigError(
            f"the strategy's cluster_resolver names {elsewhere[0]}, and not the task of this process: set TF_CONFIG in "
            "every process, or give the resolver task_type and task_id."
        )
    return {"num_ps": len(hosts.get("ps_hosts", ())), "num_workers": len(hosts.get("worker_hosts", ())) or 1}


class _ParameterServer(ParameterServerStrategy):
    """`tf.distribute.ParameterServerStrategy`, with its arguments.

    Args:
      cluster_resolver: names the cluster; None for TF_CONFIG, or processes of this machine.
      variable_partitioner: ignored: ps_train divides large variables itself.
    """

    def __init__(self, cluster_resolver: Any = None, variable_partitioner: Any = None) -> None:
        if variable_partitioner is not None:
            log.info("variable_partitioner is not used: ps_train divides large variables itself")
        cluster = _cluster_of_tf_config()
        super().__init__(**(_ps_of(cluster) if cluster else _cluster_of(cluster_resolver)))


class _MultiWorker(ParameterServerStrategy):
    """`tf.distribute.MultiWorkerMirroredStrategy` in a cluster.

    Args:
      cluster: the flags of the cluster.
    """

    def __init__(self, cluster: Mapping[str, Any]) -> None:
        super().__init__(update="sync", **_ps_of(cluster), **({} if _cluster_of_tf_config() else cluster))


class _Mirrored(_MultiWorker):
    """`tf.distribute.MirroredStrategy` in a cluster."""

    def __init__(self, cluster: Mapping[str, Any]) -> None:
        super().__init__(cluster)
        if len(tf.config.list_physical_devices("GPU")) > 1:
            self.flags["towers"] = "all"


def _or_own(own: type, ours: type) -> type:
    """Returns a class whose instances are ours in a cluster, and TensorFlow's in a program of one process.

    Args:
      own: TensorFlow's class.
      ours: the class that takes the flags of a cluster.
    """

    class Either(ours):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            cluster = _cluster_of_tf_config() or _named_cluster([*args, *kwargs.values()])
            return super().__new__(cls) if cluster else own(*args, **kwargs)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(_cluster_of_tf_config() or _named_cluster([*args, *kwargs.values()]))

    Either.__name__ = Either.__qualname__ = own.__name__
    return Either


def _named_cluster(arguments: list[Any]) -> dict[str, Any]:
    """Returns the flags of the cluster of a resolver among arguments; none if it names no task of this process."""
    kind = tf.distribute.cluster_resolver.ClusterResolver
    resolver = next((each for each in arguments if isinstance(each, kind)), None)
    if resolver is None or isinstance(resolver, tf.distribute.cluster_resolver.TFConfigClusterResolver):
        return {}
    return _cluster_of(resolver)
