"""The addresses of the ps follow the cluster file, and a file that cannot be used changes nothing."""

from __future__ import annotations

import json
import logging
import os

import pytest

from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.config.job import Job


class File:
    def __init__(self, path):
        self.path, self._time = path, 0
        self.write({"ps": ["a:1", "b:1"], "worker": ["w:1"]})

    def write(self, content):
        """A file system may keep times in whole seconds; here no two are the same."""
        self.path.write_text(content if isinstance(content, str) else json.dumps(content))
        self._time += 10
        os.utime(self.path, (self._time, self._time))


@pytest.fixture
def file(tmp_path):
    return File(tmp_path / "cluster.json")


@pytest.fixture
def resolver(file):
    path = str(file.path)
    sources = {"ps_hosts": f"cluster_file {path}"}
    return ClusterResolver(Job(ps_hosts=("a:1", "b:1"), worker_hosts=("w:1",), cluster_file=path, sources=sources))


def ps(resolver):
    return [str(address) for address in resolver.current().ps]


@pytest.fixture
def logged(caplog):
    logging.getLogger("ps_train").propagate = True
    caplog.set_level(logging.WARNING, "ps_train")
    return caplog


def test_without_a_file_the_ps_are_where_they_were():
    assert ps(ClusterResolver(Job(ps_hosts=("a:1",), worker_hosts=("w:1",)))) == ["a:1"]


def test_a_new_address_counts_as_soon_as_it_stands_there(file, resolver):
    assert ps(resolver) == ["a:1", "b:1"]
    file.write({"ps": ["a:1", "c:1"], "worker": ["w:1"]})
    assert ps(resolver) == ["a:1", "c:1"]
    assert [str(address) for address in resolver.cluster.ps] == ["a:1", "b:1"]


def test_what_was_written_before_the_first_look_counts_too(file, resolver):
    file.write({"ps": ["a:1", "c:1"], "worker": ["w:1"]})
    assert ps(resolver) == ["a:1", "c:1"]


def test_a_file_that_is_replaced_or_gone_for_a_moment_changes_nothing(file, resolver):
    file.path.unlink()
    assert ps(resolver) == ["a:1", "b:1"]


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ("{", "is not JSON"),
        ({"ps": ["a:1", "b"], "worker": ["w:1"]}, '"b" in ps_hosts'),
        ({"ps": ["a:1"], "worker": ["w:1"]}, "names 1 ps now, and this run has 2: the file takes effect"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported_once_and_all_stays_as_it_was(file, resolver, logged, content, reported):
    file.write(content)
    assert ps(resolver) == ps(resolver) == ["a:1", "b:1"]
    assert len(logged.messages) == 1 and reported in logged.messages[0] and str(file.path) in logged.messages[0]
    file.write({"ps": ["a:1", "c:1"], "worker": ["w:1"]})
    assert ps(resolver) == ["a:1", "c:1"]
