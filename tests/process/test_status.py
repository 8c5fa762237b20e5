"""The status page of living jobs: what it says is what happens, and no client or fault of it harms the training."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.long import long
from tests.support.machine.processes import Processes, eventually

pytestmark = pytest.mark.timeout(300)

DIGITS = ("--model=ps_train.models.digits:Digits", "--log_secs=0.2")


def address_of(job) -> str:
    job.wait_for("status   http://", 100)
    return re.search(r"status   (http://\S+)", job.output)[1]


def get(address: str, path: str = "api/status"):
    with urllib.request.urlopen(address + path, timeout=20) as answer:
        return json.loads(answer.read())


def state(status, task: str) -> str:
    return next(each["state"] for each in [*status["ps"], *status["workers"]] if each["task"] == task)


@pytest.mark.parametrize("update", ["async", long("sync"), long("bounded")])
def test_a_living_job_shows_all_of_itself_and_its_report_is_its_end(processes: Processes, tmp_path, update):
    flags = ("--num_ps=2", "--num_workers=2", f"--update={update}", "--max_steps=100000000")
    job = processes.run(*DIGITS, *flags, f"--model_dir={tmp_path}")
    address = address_of(job)

    def is_complete() -> dict | None:
        status = get(address)
        known = [*status["ps"], *status["workers"]]
        is_known = all(each["cpu"] is not None and each["rss_bytes"] for each in known)
        is_busy = all(worker["examples_per_sec"] for worker in status["workers"])
        return status if is_known and is_busy and (status["step"] or 0) > 50 else None

    status = eventually(is_complete, 120, "a complete status")
    assert (status["state"], status["job"]["update"], status["job"]["num_ps"]) == ("training", update, 2)
    assert [each["state"] for each in [*status["ps"], *status["workers"]]] == ["serving"] * 2 + ["training"] * 2
    assert sum(ps["share"] for ps in status["ps"]) == pytest.approx(1.0)
    assert all(each["sent_bytes_per_sec"] > 1000 for each in status["ps"])
    assert (status["staleness"] is None, status["waiting"] is None) == (update == "sync", update == "async")
    assert {"joined", "started"} <= {event["kind"] for event in status["events"]}

    def rates_agree() -> bool:  # those of the workers are over some seconds, that of the job is newer
        found = get(address)
        total = sum(worker["examples_per_sec"] or 0.0 for worker in found["workers"])
        return total == pytest.approx(found["examples_per_sec"], rel=0.3)

    eventually(rates_agree, 90, "the workers' rates to add up to that of the job")
    eventually(lambda: len(get(address, "api/history")["points"]) > 1, 60, "a second point of the history")
    with urllib.request.urlopen(address + "metrics", timeout=20) as answer:
        families = {family.name for family in text_string_to_metric_families(answer.read().decode())}
    assert {"ps_train_global_step", "ps_train_cpu_cores", "ps_train_heartbeat_age_seconds"} <= families
    job.send(signal.SIGINT)
    assert job.wait(60) == 130
    assert '"stopped"' in (tmp_path / "report.html").read_text()


@pytest.mark.long
def test_a_lost_ps_is_seen_and_the_job_is_seen_to_recover(processes: Processes, tmp_path):
    faults = ("--inject_fault=kill:ps:1@300", "--max_restarts=2", "--save_steps=100")
    flags = ("--num_ps=2", "--num_workers=2", "--max_steps=100000000")
    job = processes.run(*DIGITS, *flags, *faults, f"--model_dir={tmp_path}")
    address = address_of(job)

    def kinds() -> set[str]:
        return {event["kind"] for event in get(address)["events"]}

    eventually(lambda: {"fault", "lost", "restarted", "restored"} <= kinds(), 150, "the events of the recovery")
    eventually(lambda: get(address)["state"] == "training", 60, "training again")
    eventually(lambda: state(get(address), "ps:1") == "serving", 60, "ps:1 serving again")
    fault = next(event for event in get(address)["events"] if event["kind"] == "fault")
    assert (fault["task"], "kill:ps:1@300 strikes at step" in fault["text"]) == ("ps:1", True)
    job.send(signal.SIGINT)
    assert job.wait(60) == 130


def test_hostile_clients_change_nothing(processes: Processes, tmp_path):
    job = processes.run(*DIGITS, "--num_ps=1", "--num_workers=1", "--max_steps=600", f"--model_dir={tmp_path}")
    address = address_of(job)
    port = int(address.rstrip("/").rpartition(":")[2])
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    for client in clients[:50]:
        with contextlib.suppress(OSError):
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999\r\n")
    try:
        assert job.wait(150) == 0
    finally:
        for client in clients:
            client.close()
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["global_step"] == 600
    assert {finding["rule"] for finding in result["health"]} >= {"balance", "ps_cpu"}


def test_events_are_written_one_json_object_a_line(processes: Processes, tmp_path):
    path = tmp_path / "events.json"
    flags = ("--num_ps=1", "--num_workers=1", "--max_steps=200", f"--events_json={path}")
    job = processes.run(*DIGITS, *flags, f"--model_dir={tmp_path / 'model'}", "--status_port=-1")
    assert job.wait(150) == 0
    assert "status   " not in job.output
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(set(event) == {"time", "kind", "task", "text"} for event in events)
    kinds = [event["kind"] for event in events]
    assert (kinds[0], kinds[-1]) == ("started", "ended")
    assert {"joined", "saved"} <= set(kinds)
    assert len({(event["kind"], event["text"]) for event in events}) == len(events)  # each is there once


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_job_whose_events_are_lost_is_not_ended_with_0(processes: Processes, tmp_path):
    flags = ("--num_ps=1", "--num_workers=1", "--max_steps=20", "--events_json=/dev/full", f"--model_dir={tmp_path}")
    job = processes.run(*DIGITS, *flags)
    assert job.wait(150) == 2
    assert job.output.count("events_json=/dev/full cannot be written: No space left on device") == 1
    assert "not all of its outputs are written: events_json=/dev/full (No space left on device)" in job.lines[-1]
    assert json.loads((tmp_path / "result.json").read_text())["global_step"] == 20


def test_a_port_that_is_taken_ends_the_job_with_2_before_it_trains(processes: Processes, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = ("--num_ps=1", "--num_workers=1", f"--status_port={port}")
        job = processes.run(*DIGITS, *flags, f"--model_dir={tmp_path}")
        assert job.wait(150) == 2
    assert f"status_host=127.0.0.1, status_port={port} cannot be opened (Address already in use)" in job.output


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--status_port=70000", "status_port=70000 (from the command line) is not valid: use -1, or a number from 0"),
        ("--health_limits=x:1", "health_limits=x:1 (from the command line) is not valid: use RULE:NUMBER,... with"),
        ("--events_json=/no/such/place", "events_json=/no/such/place cannot be written to (No such file or directory)"),
    ],
)
def test_flags_that_are_not_valid_are_refused(processes: Processes, tmp_path, flag, text):
    job = processes.run(*DIGITS, "--num_ps=1", "--num_workers=1", flag, f"--model_dir={tmp_path}")
    assert job.wait(100) == 2
    assert text in job.output
