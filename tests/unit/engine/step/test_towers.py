"""Which devices a worker computes on."""

from __future__ import annotations

import logging

import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.sessions.server import session_config
from ps_train.config.job import Job, Task
from ps_train.engine.step.towers import ONE_TOWER, find_towers


@pytest.fixture
def machine(monkeypatch):
    """Sets the number of GPUs of this machine."""

    def has(gpus: int) -> None:
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [kind] * gpus)

    return has


def gpus(count: int) -> tuple[str, ...]:
    return tuple(f"/device:GPU:{number}" for number in range(count))


@pytest.mark.parametrize(
    ("gpus_there", "fields", "devices", "cpus"),
    [
        (4, {"towers": "all"}, gpus(4), 1),
        (4, {"towers": "all", "gpus": 2}, gpus(2), 1),
        (4, {"towers": "3"}, gpus(3), 1),
        (4, {"towers": "3", "gpus": 0}, ("/device:CPU:0", "/device:CPU:1", "/device:CPU:2"), 3),
        (0, {"towers": "2"}, ("/device:CPU:0", "/device:CPU:1"), 2),
        (0, {"towers": "all"}, ("",), 1),
        (1, {"towers": "all"}, ("",), 1),
        (4, {"towers": "1"}, ("",), 1),
        (4, {}, ("",), 1),
    ],
)
def test_towers_are_gpus_or_else_logical_cpu_devices(machine, gpus_there, fields, devices, cpus):
    machine(gpus_there)
    towers = find_towers(Job(**fields))
    assert (towers.devices, towers.cpus) == (devices, cpus)
    assert towers.home == ("/device:CPU:0" if len(devices) > 1 else "")


def test_more_towers_than_gpus_are_refused_with_the_gpus_that_there_are(machine):
    machine(2)
    with pytest.raises(ConfigError) as caught:
        find_towers(Job(towers="3", sources={"towers": "the command line"}))
    assert str(caught.value) == (
        "towers=3 (from the command line) is more than the 2 GPUs of this worker (/device:GPU:0, /device:GPU:1): "
        "use at most 2, or all."
    )


def test_all_towers_of_a_machine_without_a_gpu_are_one_which_a_line_says(machine, caplog):
    machine(0)
    with caplog.at_level(logging.WARNING):
        assert find_towers(Job(towers="all")) == ONE_TOWER
    assert caplog.messages == ["towers=all has no effect: this worker has no GPU, so one device computes"]


@pytest.mark.parametrize("towers", ["1", "2", "all"])
def test_only_several_towers_let_tensorflow_choose_a_device_for_operations_without_a_kernel(towers):
    job = Job(ps_hosts=("p:1",), worker_hosts=("a:1",), towers=towers)
    config = session_config(Cluster.of(job), Task("worker", 0), job)
    assert config.allow_soft_placement == (towers != "1")
    assert dict(config.device_count) == {}
