"""The health endpoint of a task: every task has one where the flag asks for it, and it says which task it is."""

from __future__ import annotations

import logging
import socket
import urllib.error
import urllib.request

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job, Task
from ps_train.training.tasks.health_port import serve_health


@pytest.mark.parametrize("task", [Task("ps", 0), Task("worker", 1), Task("evaluator", 0)])
def test_a_task_answers_with_its_name(task: Task, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ps_train")
    server = serve_health(Job(health_port=0), task)
    assert server is not None
    try:
        with urllib.request.urlopen(f"{server.address}healthz", timeout=20) as answer:
            assert (answer.status, answer.read().decode()) == (200, f"ok {task}\n")
        assert f"{task} answers {server.address}healthz" in caplog.text
    finally:
        server.stop()


def test_there_is_no_other_page() -> None:
    server = serve_health(Job(health_port=0), Task("worker", 0))
    assert server is not None
    try:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.address, timeout=20)
    finally:
        server.stop()


@pytest.mark.parametrize("port", [None, -1])
def test_a_job_without_a_health_port_has_no_endpoint(port: int | None) -> None:
    assert serve_health(Job(health_port=port), Task("ps", 0)) is None


def test_a_port_that_is_taken_is_named_with_its_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"health_port={port} cannot be opened .*or --health_port=-1 to serve"):
            serve_health(Job(health_port=port), Task("ps", 0))
