"""Names of `tf.distribute` mean ps and workers, in every module that has them."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.compat.distribute import names
from ps_train.compat.distribute.strategy import ParameterServerStrategy

X, Y = np.ones((8, 2), "f"), np.ones((8, 1), "f")
WORKERS = {"worker": ["a:1", "b:1"]}
OWN = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


@pytest.fixture
def install(monkeypatch):
    """Installs the names in a task of a cluster; gives them back after the test."""
    installed = []

    def call(cluster=None, job="worker"):
        if cluster:
            monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": job, "index": 0}}))
        installed.append(names.install())

    yield call
    for each in installed:
        each.give_back()


def model():
    made = keras.Sequential([keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


@pytest.mark.parametrize(
    ("cluster", "name", "flags"),
    [
        (WORKERS, "MultiWorkerMirroredStrategy", {"update": "sync", "ps_on_workers": True}),
        (WORKERS, "MirroredStrategy", {"update": "sync", "ps_on_workers": True}),
        (WORKERS, "ParameterServerStrategy", {"ps_on_workers": True}),
        ({**WORKERS, "ps": ["c:1"]}, "MultiWorkerMirroredStrategy", {"update": "sync"}),
        ({**WORKERS, "ps": ["c:1"]}, "ParameterServerStrategy", {}),
    ],
)
def test_a_strategy_in_a_cluster_is_that_cluster(install, fits, cluster, name, flags):
    install(cluster)
    strategy = getattr(tf.distribute, name)()
    with strategy.scope():
        made = model()
    made.fit(X, Y, verbose=0)
    assert isinstance(strategy, getattr(tf.distribute, name)) and strategy.num_workers == 2
    assert fits == [{"model": made, "epochs": 1, **flags}]


def test_every_module_has_the_names(install):
    install(WORKERS)
    v2 = tf.compat.v2
    for name in ("ParameterServerStrategy", "MultiWorkerMirroredStrategy"):
        found = {
            getattr(module, name)
            for module in (
                tf.distribute,
                tf.distribute.experimental,
                v2.distribute,
                v2.distribute.experimental,
                importlib.import_module("tensorflow.distribute"),
                importlib.import_module("tensorflow.distribute.experimental"),
            )
        }
        assert len(found) == 1 and issubclass(found.pop(), ParameterServerStrategy)
    from tensorflow.distribute import MirroredStrategy, Server
    from tensorflow.distribute.cluster_resolver import TFConfigClusterResolver

    assert TFConfigClusterResolver is tf.distribute.cluster_resolver.TFConfigClusterResolver

    assert Server is names.Server and issubclass(MirroredStrategy, ParameterServerStrategy)


def test_without_a_cluster_mirrored_strategies_are_tensorflows(install, fits):
    install()
    for own, name in zip(OWN, ("MirroredStrategy", "MultiWorkerMirroredStrategy"), strict=True):
        strategy = getattr(tf.distribute, name)()
        assert isinstance(strategy, own) and not isinstance(strategy, ParameterServerStrategy)
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(
        communication=tf.distribute.experimental.CollectiveCommunication.AUTO
    )
    with strategy.scope():
        made = model()
    made.fit(X, Y, verbose=0)
    model().fit(X, Y, verbose=0)
    assert fits == []


def test_without_a_cluster_a_parameter_server_strategy_starts_one_here(install, fits):
    install()
    spec = tf.train.ClusterSpec({"worker": ["localhost:1"] * 3, "ps": ["localhost:2", "localhost:3"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(256, 2)
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    assert strategy.flags == {"num_ps": 2, "num_workers": 3} and strategy.num_workers == 3
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert tf.distribute.experimental.ParameterServerStrategy(resolver).flags == {}


def test_a_resolver_with_a_task_names_the_cluster(install):
    install()
    spec = tf.train.ClusterSpec({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=0)
    flags = {"ps_hosts": ("c:1",), "worker_hosts": ("b:1",), "chief_hosts": ("a:1",)}
    flags |= {"job_name": "worker", "task_index": 0}
    assert tf.distribute.ParameterServerStrategy(resolver).flags == flags
    strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    assert strategy.flags == {**flags, "update": "sync"} and strategy.num_replicas_in_sync == 2
    with pytest.raises(ConfigError, match=r"names [abc]:1, .* task_type and task_id"):
        tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.SimpleClusterResolver(spec))


def test_a_model_without_a_scope_trains_on_the_cluster_too(install, fits):
    install({**WORKERS, "ps": ["c:1"]})
    model().fit(X, Y, verbose=0, max_queue_size=1)
    assert len(fits) == 1
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        model().fit(X, Y, verbose=0)
    assert len(fits) == 1


def test_names_are_given_back(fits):
    before = [vars(module).copy() for module in (tf.distribute, tf.distribute.experimental, tf.distribute.coordinator)]
    names.install().give_back()
    after = [vars(module).copy() for module in (tf.distribute, tf.distribute.experimental, tf.distribute.coordinator)]
    assert before == after
    model().fit(X, Y, verbose=0)
    assert fits == []


def test_legacy_keras_is_refused(monkeypatch):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    with pytest.raises(ConfigError, match=r"Keras 3 alone"):
        names.install()


def test_a_program_in_a_cluster_may_still_configure_its_devices():
    program = """
from ps_train.compat.distribute import names
names.install()
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration() for _ in range(2)])
tf.config.threading.set_inter_op_parallelism_threads(3)
assert tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).num_replicas_in_sync == 2
"""
    environ = {**os.environ, "TF_CONFIG": json.dumps({"cluster": WORKERS, "task": {"type": "worker", "index": 0}})}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, timeout=100)
