"""Host lists from a DNS name."""

from __future__ import annotations

import socket

import pytest

from ps_train.base.errors import ConfigError, UnreachableError
from ps_train.cluster.addresses import dns
from ps_train.cluster.addresses.dns import resolve_dns
from ps_train.config.job import Job, Task

WORKER = Task("worker", 0)


@pytest.fixture
def answers(monkeypatch):
    """Answers of the name server, one after the other; the last one again and again."""

    def give(*found):
        left = list(found)

        def lookup(name, port, type):
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return [(socket.AF_INET6 if ":" in one else socket.AF_INET, type, 6, "", (one, 0)) for one in answer]

        monkeypatch.setattr(dns.socket, "getaddrinfo", lookup)
        monkeypatch.setattr(dns, "_POLL_SECS", 0.01)
        monkeypatch.setattr(dns, "is_local", lambda host: host.startswith("127."))

    return give


def job(workers, **more):
    return Job(ps_hosts=("p:1",), worker_hosts=(workers,), **more)


def test_all_records_become_addresses_in_one_order(answers):
    answers(["10.0.0.10", "fd00::2", "10.0.0.9", "fd00::1", "10.0.0.9"])
    found, task = resolve_dns(job("dns:workers.example:2222"), WORKER)
    assert found.worker_hosts == ("10.0.0.9:2222", "10.0.0.10:2222", "[fd00::1]:2222", "[fd00::2]:2222")
    assert found.ps_hosts == ("p:1",) and task == WORKER


@pytest.mark.parametrize(
    ("text", "more"), [("dns:w:1*2", {}), ("dns:w:1", {"num_workers": 2}), ("dns:w:1*2", {"num_workers": 2})]
)
def test_it_waits_until_the_number_is_right(answers, text, more):
    answers(socket.gaierror(-2, "unknown"), ["1.1.1.1"], ["1.1.1.1", "1.1.1.2", "1.1.1.3"], ["1.1.1.2", "1.1.1.1"])
    assert resolve_dns(job(text, **more), WORKER)[0].worker_hosts == ("1.1.1.1:1", "1.1.1.2:1")


def test_at_the_deadline_it_says_what_it_has_and_what_it_expects(answers):
    answers(["1.1.1.1"])
    with pytest.raises(UnreachableError, match=r"w has 1 addresses, and 2 are expected"):
        resolve_dns(job("dns:w:1*2", startup_timeout_secs=0.05), WORKER)
    answers(socket.gaierror(-2, "Name or service not known"))
    with pytest.raises(UnreachableError, match=r"0 addresses \(Name or service not known\)"):
        resolve_dns(job("dns:w:1", startup_timeout_secs=0.05), WORKER)


@pytest.mark.parametrize(
    "text",
    ["dns:", "dns:w", "dns:w:", "dns::1", "dns:w:x", "dns:w:1*", "dns:w:1*0", "dns:w:1*x", "dns:a b:1", "dns:w:1:2"],
)
def test_a_malformed_entry_is_refused(answers, text):
    answers(["1.1.1.1"])
    with pytest.raises(ConfigError, match="dns:NAME:PORT"):
        resolve_dns(job(text), WORKER)


def test_a_name_beside_other_entries_is_refused(answers):
    with pytest.raises(ConfigError, match="one name for the whole list"):
        resolve_dns(Job(ps_hosts=("p:1",), worker_hosts=("a:1", "dns:w:1")), WORKER)


def test_without_an_index_a_task_has_that_of_its_machines_address(answers):
    answers(["192.0.2.1", "127.0.0.1"])
    assert resolve_dns(job("dns:w:1*2"), Task("worker", None))[1] == Task("worker", 0)
    assert resolve_dns(job("dns:w:1*2"), Task("worker", 1))[1] == Task("worker", 1)


@pytest.mark.parametrize("found", [["192.0.2.1"], ["127.0.0.1", "127.0.0.2"]])
def test_an_index_that_cannot_be_told_must_be_given(answers, found):
    answers(found)
    with pytest.raises(ConfigError, match="task_index is not given"):
        resolve_dns(job("dns:w:1"), Task("worker", None))


def test_lists_without_a_name_stay_as_they_are():
    given = job("a:1")
    assert resolve_dns(given, WORKER) == (given, WORKER)
