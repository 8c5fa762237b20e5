"""The chief's observer: the page that it serves, the report that it writes, and its own faults."""

from __future__ import annotations

import io
import json
import os
import threading
import time
import unittest.mock
import urllib.request

import pytest

from ps_train.base.console import Console
from ps_train.base.errors import ConfigError
from ps_train.base.lifecycle import Recorder, attach
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.observe.status.observer import JobObserver
from ps_train.training.tasks.displays import displays
from tests.support.status.job import counters_of, job_of, progress_of
from tests.support.status.tasks import store_of, worker_status


@pytest.fixture
def observe(tmp_path):
    made = []

    def make(**fields):
        job, recorder = job_of(**fields), Recorder()
        attach(recorder)
        made.append(JobObserver(job, Cluster.of(job), recorder, str(tmp_path), displays()))
        return made[-1]

    yield make
    for observer in made:
        observer.stop()


def started(observer):
    stream = io.StringIO()
    observer.start(Console(stream))
    return stream.getvalue()


def get(address, path):
    with urllib.request.urlopen(address + path, timeout=20) as answer:
        return answer.headers, answer.read().decode()


def test_the_page_and_its_data_are_served_where_the_line_says(observe):
    observer = observe(status_port=0)
    line = started(observer)
    assert line.startswith("status   http://127.0.0.1:")
    address = line.split()[1]
    observer.read_records(0, store_of(worker_status(0), worker_status(1)))
    observer.board.progress(progress_of(), counters_of(), None)
    assert json.loads(get(address, "api/status")[1])["step"] == 1000
    assert len(json.loads(get(address, "api/history")[1])["points"]) == 1
    assert "ps_train_global_step 1000" in get(address, "metrics")[1]
    assert get(address, "healthz")[1] == "ok\n"
    headers, text = get(address, "")
    assert text.startswith("<!doctype html>")
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_the_first_event_is_that_the_chief_starts_though_workers_join_before_the_page_is_served(observe):
    observer = observe()
    heartbeat = unittest.mock.Mock(**{"ps_liveness.silent_ps.return_value": []})
    observer.watch(heartbeat)
    (read,) = heartbeat.subscribe.call_args.args
    read(0, store_of(worker_status(0), worker_status(1)))
    started(observer)
    assert [one["kind"] for one in observer.board.status()["events"]] == ["started", "joined", "joined"]


@pytest.mark.parametrize("port", [None, -1])
def test_without_a_port_nothing_is_served(observe, port):
    assert started(observe(status_port=port)) == ""


def test_a_page_for_other_machines_warns(observe, caplog):
    started(observe(status_port=0, status_host="0.0.0.0"))
    assert "every host that reaches this port can read the status page" in caplog.text


def test_a_port_that_is_taken_ends_the_start(observe):
    first = observe(status_port=0)
    port = int(first._server.address.rstrip("/").rpartition(":")[2])
    with pytest.raises(ConfigError, match=f"status_port={port} cannot be opened"):
        observe(status_port=port)


def test_values_that_are_not_finite_are_null_in_json(observe):
    observer = observe(status_port=0)
    address = started(observer).split()[1]
    observer.board.progress(progress_of(loss=float("nan"), examples_per_sec=float("inf")), counters_of(), None)

    def refuse(constant):
        raise AssertionError(constant)

    status = json.loads(get(address, "api/status")[1], parse_constant=refuse)
    assert (status["loss"], status["examples_per_sec"], status["step"]) == (None, None, 1000)
    assert json.loads(get(address, "api/history")[1], parse_constant=refuse)["points"][0]["loss"] is None


def test_the_report_is_written_once_with_the_end(observe, tmp_path):
    observer = observe(events_json=str(tmp_path / "events.json"))
    started(observer)
    observer.board.progress(progress_of(), counters_of(), None)
    observer.end("failed", "lost ps:0")
    report = (tmp_path / "report.html").read_text()
    observer.end("done")
    assert (tmp_path / "report.html").read_text() == report
    assert "lost ps:0" in report
    assert observer.board.status()["events"][-1]["text"] == "failed: lost ps:0"
    assert os.listdir(tmp_path).count("report.html.new") == 0


def test_a_report_that_cannot_be_written_and_records_that_cannot_be_read_do_no_harm(observe, tmp_path):
    observer = observe()
    observer.read_records(0, {"seat/worker:1": "not json"})
    (tmp_path / "report.html").mkdir()
    observer.end("done")
    assert observer.board.status()["state"] == "done"


def test_an_open_page_hears_of_the_end_before_the_server_goes(observe):
    observer = observe(status_port=0)
    address = started(observer).split()[1]
    get(address, "api/history")  # a page that is seen
    heard = []
    hidden = threading.Thread(target=lambda: heard.append(json.loads(get(address, "api/end")[1])))
    hidden.start()
    observer.end("done")
    hidden.join(20)
    assert [status["state"] for status in heard] == ["done"]
    stopping = threading.Thread(target=observer.stop)
    stopping.start()
    assert json.loads(get(address, "api/status")[1])["state"] == "done"
    stopping.join(20)
    with pytest.raises(OSError, match=r"refused|reset"):
        get(address, "api/status")


def test_a_job_that_nobody_looks_at_does_not_wait_for_pages(observe, monkeypatch):
    observer = observe(status_port=0)
    address = started(observer).split()[1]
    get(address, "api/status")  # such as a progress bar
    monkeypatch.setattr(time, "sleep", lambda secs: pytest.fail("it waits"))
    observer.end("done")
    observer.stop()
