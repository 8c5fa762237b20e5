"""File systems that TensorFlow has, or has not."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.file_systems import check_file_systems
from ps_train.config.job import Job


@pytest.mark.parametrize("name", ["data_dir", "export_dir"])
def test_a_file_system_that_nobody_has_is_refused_with_those_it_has(name):
    with pytest.raises(ConfigError) as caught:
        check_file_systems(Job(**{name: "none://bucket/x"}, sources={name: "job.flags:2"}))
    message = str(caught.value)
    assert f"{name}=none://bucket/x (from job.flags:2): no package of fsspec knows none://" in message
    assert "ram" in message and "mounted bucket" in message


def test_a_model_directory_is_only_on_file_systems_of_fsspec():
    with pytest.raises(ConfigError, match=r"model_dir=none://x: no package of fsspec knows none://; or use a local"):
        check_file_systems(Job(model_dir="none://x"))


@pytest.mark.parametrize("path", ["", "data", "/data", "ram://data", "memory://data"])
def test_local_paths_and_those_of_tensorflow_and_fsspec_are_accepted(path):
    check_file_systems(Job(data_dir=path, export_dir=path))
