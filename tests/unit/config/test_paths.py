"""Paths of flags: the home directory, and addresses of other file systems."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import scheme_of
from ps_train.config.fields import LOCAL, REMOTE, path_fields
from ps_train.config.job import Job
from ps_train.config.paths import local_path
from tests.support.machine.fork_server import ROOT

LINE = " (from the command line)"
PATHS = path_fields(Job)


def refusal(name, value):
    with pytest.raises(ConfigError) as caught:
        local_path(name, value, LINE, PATHS[name] == LOCAL)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", PATHS)
def test_a_job_has_the_home_directory_in_the_place_of_a_tilde(name, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert getattr(Job(**{"update": "sync", "warm_start": "old", name: "~/x"}), name) == "/home/me/x"
    assert getattr(Job(**{"update": "sync", "warm_start": "old", name: "x/~"}), name) == "x/~"


def test_a_home_directory_that_does_not_exist_is_refused():
    assert "there is no home directory of ~nobody_at_all" in refusal("model_dir", "~nobody_at_all/x")


@pytest.mark.parametrize("name", [name for name, place in PATHS.items() if place == LOCAL])
@pytest.mark.parametrize(
    "address", ["gs://bucket/x", "hdfs://name:9000/x", "s3://bucket/x", "gs:/bucket", "http://a/x"]
)
def test_a_file_that_must_be_local_is_not_on_another_file_system(name, address):
    message = refusal(name, address)
    assert f"{name}={address}{LINE} is not a local path" in message
    assert "mounted bucket" in message


def test_the_memory_of_one_process_is_no_model_directory():
    assert "is in the memory of one process" in refusal("model_dir", "memory://x")


@pytest.mark.parametrize("name", [name for name, place in PATHS.items() if place == REMOTE])
def test_data_and_exports_may_be_on_another_file_system(name):
    assert local_path(name, "gs://bucket/x", "") == "gs://bucket/x"
    assert "use gs://NAME/PATH" in refusal(name, "gs:/bucket/x")


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(("given", "path"), [("file:///a/b", "/a/b"), ("a/b", "a/b"), ("", ""), ("a:b/c", "a:b/c")])
def test_a_local_path_stays(name, given, path):
    assert local_path(name, given, "") == path


def test_what_cannot_be_printed_is_refused_in_one_line():
    assert "a\\nb" in refusal("model_dir", "a\nb")


def test_the_scheme_is_what_stands_before_the_slashes():
    assert [scheme_of(path) for path in ("gs://x", "/gs://x", "x", "S3://b")] == ["gs", "", "", "S3"]


@pytest.mark.parametrize("verb", [[], ["launch"]])
def test_a_working_directory_that_was_removed_is_one_line(verb: list[str], tmp_path: pathlib.Path) -> None:
    shell = 'cd "$0" && rmdir "$0" && exec "$@"'
    command = ["sh", "-c", shell, str(tmp_path), sys.executable, "-m", "ps_train", *verb, "--hosts=a:ps,b:worker"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 2 and "the working directory is not there (No such file" in done.stderr
    assert done.stderr.count("\n") == 1
