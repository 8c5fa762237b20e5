"""Tasks that join a server take part in every fit of the chief, and end with the program."""

from __future__ import annotations

import os
import threading

import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError
from ps_train.compat.distribute.joined import ask, asked_directory, directory_of_workers, join
from ps_train.compat.distribute.server import Server
from ps_train.compat.scripts import coordinated
from ps_train.config.job import Task

HOSTS = {"ps_hosts": ("c:1",), "worker_hosts": ("b:1", "d:1"), "chief_hosts": ("a:1",)}
SPEC = tf.train.ClusterSpec({"chief": ["a:1"], "worker": ["b:1", "d:1"], "ps": ["c:1"]})


@pytest.fixture
def environ(monkeypatch):
    """The environment of the tasks of a launcher."""
    with coordinated.asked_in({}, asks_workers=True) as found:
        monkeypatch.setenv(coordinated.DIRECTORY_VARIABLE, asked := found[coordinated.DIRECTORY_VARIABLE])
        assert asked_directory() == directory_of_workers() == asked
        yield found
    assert not os.path.exists(asked)


class Role:
    """Notes its jobs, and returns codes."""

    def __init__(self, *codes):
        self.codes, self.jobs = iter(codes), []

    def __call__(self, job, task, console):
        self.jobs.append((job.model, job.max_steps, str(task), job.worker_hosts))
        return next(self.codes)


def test_a_worker_trains_what_the_chief_asks_until_the_end(environ):
    role, codes = Role(0, 0), []
    thread = threading.Thread(target=lambda: codes.append(join(Task("worker", 1), HOSTS, {"worker": role})))
    thread.start()
    for steps in (3, 4):
        ask(asked_directory(), ["--model=sent:Model", f"--max_steps={steps}"])
    coordinated.end(environ)
    thread.join(30)
    assert codes == [0]
    assert role.jobs == [("sent:Model", steps, "worker:1", HOSTS["worker_hosts"]) for steps in (3, 4)]


def test_a_failure_ends_the_task(environ):
    ask(asked_directory(), ["--max_steps=3"])
    assert join(Task("ps", 0), HOSTS, {"ps": Role(7)}) == 7


def test_a_task_whose_launcher_has_ended_ends(monkeypatch, tmp_path):
    monkeypatch.setenv(coordinated.DIRECTORY_VARIABLE, str(tmp_path / "gone"))
    assert join(Task("worker", 0), HOSTS, {}) == 0


def test_without_a_launcher_a_ps_serves_once_and_a_worker_is_refused():
    role = Role(0)
    assert join(Task("ps", 0), HOSTS, {"ps": role}) == 0
    assert [job[2] for job in role.jobs] == ["ps:0"]
    with pytest.raises(ConfigError, match=r"worker:0 calls Server.join\(\) .* python -m ps_train run"):
        join(Task("worker", 0), HOSTS, {"worker": role})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Server(SPEC, job_name="worker", task_index=1, protocol="grpc", start=True),
        lambda: Server(SPEC.as_cluster_def(), "worker", 1),
        lambda: Server(tf.train.ServerDef(cluster=SPEC.as_cluster_def(), job_name="worker", task_index=1)),
    ],
)
def test_a_server_joins_as_its_task_and_ends_the_process(monkeypatch, make):
    asked = []
    monkeypatch.setattr("ps_train.compat.distribute.joined.join", lambda *given: asked.append(given) or 5)
    server = make()
    server.start()
    assert server.target == "grpc://d:1" and asked == []
    with pytest.raises(SystemExit) as caught:
        server.join()
    assert caught.value.code == 5 and asked == [(Task("worker", 1), HOSTS)]


def test_an_error_of_a_joined_task_is_one_line(monkeypatch, capsys):
    def fail(*given):
        raise ModelError("no layer")

    monkeypatch.setattr("ps_train.compat.distribute.joined.join", fail)
    with pytest.raises(SystemExit) as caught:
        Server(SPEC, "ps", 0).join()
    assert caught.value.code == 2 and capsys.readouterr().err.startswith("ps_train: error: no layer")
