"""The text of the rules of a job's firewall, and the tasks and networks that they are made from."""

from __future__ import annotations

import ipaddress
import pathlib
import re
import subprocess

import pytest

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.commands.firewall.rules import Rules, networks_of, own_tasks, removal, table_name
from ps_train.config.job import Job, Task
from tests.support.machine.namespaces import hosts, needs_namespaces, needs_nft

JOB = Job(ps_hosts=("a:2222",), worker_hosts=("b:2222", "b:2223", "c:2222"))


def networks(*texts):
    return frozenset(ipaddress.ip_network(text) for text in texts)


def elements(text, name):
    """The elements of a set in the rules."""
    (body,) = re.findall(rf"set {name} {{(.*?)\n\t}}", text, re.DOTALL)
    return re.findall(r"elements = { (.*) }", body)


def test_ports_and_members_of_both_families_are_sets():
    members = networks("10.0.0.2", "10.0.0.3", "10.1.0.0/16", "fd00::5", "fd01::/64")
    text = Rules("ps_train_x", frozenset({2223, 2222, 10000}), members).text()
    assert elements(text, "ports") == ["2222, 2223, 10000"]
    assert elements(text, "members4") == ["10.0.0.2/31, 10.1.0.0/16"] and elements(text, "members6") == [
        "fd00::5, fd01::/64"
    ]
    assert elements(text, "viewers4") == elements(text, "viewers6") == []


def test_the_table_is_replaced_in_one_step():
    text = Rules("ps_train_x", frozenset({2222}), networks("10.0.0.2")).text()
    assert text.startswith(removal("ps_train_x") + "table inet ps_train_x {\n")
    assert removal("ps_train_x") == "add table inet ps_train_x\ndelete table inet ps_train_x\n"


def test_loopback_and_members_are_admitted_before_all_others_are_dropped():
    lines = [line.strip() for line in Rules("t", frozenset({1}), networks("10.0.0.2")).text().splitlines()]
    start = lines.index("chain job {")
    assert lines[start + 1 : lines.index("}", start)] == [
        'iifname "lo" accept',
        "ip saddr @members4 accept",
        "ip6 saddr @members6 accept",
        "counter drop",
    ]
    assert "fib daddr type local tcp dport @ports jump job" in lines  # what is not for the job is left alone


def test_viewers_reach_the_status_page_and_no_other_port():
    rules = Rules("t", frozenset({2222, 6006}), networks("10.0.0.2"), frozenset({6006}), networks("10.9.0.0/16"))
    assert "tcp dport { 6006 } ip saddr @viewers4 accept" in rules.text() and elements(rules.text(), "viewers4")
    assert "tcp dport" not in Rules("t", frozenset({1}), networks("10.0.0.2")).text().replace("dport @ports", "")


def test_addresses_become_networks_without_loopback():
    assert networks_of(["10.0.0.1", "127.0.1.1", "::1", "fe80::1%eth0", "10.0.0.1"]) == networks("10.0.0.1", "fe80::1")


def test_own_tasks_are_found_by_any_address_of_a_host():
    tasks = Cluster.of(JOB).tasks()
    resolved = {"a": ["10.0.0.1", "fd00::1"], "b": ["10.0.0.2"], "c": []}
    assert own_tasks(tasks, resolved, ["fd00::1", "127.0.0.1"]) == ["ps:0"]
    assert own_tasks(tasks, resolved, ["10.0.0.2"]) == ["worker:0", "worker:1"]
    assert own_tasks(tasks, resolved, ["10.0.0.9"]) == []
    assert own_tasks(tasks, {**resolved, "c": ["127.0.1.1"]}, ["10.0.0.9"]) == ["worker:2"]


def test_a_job_has_one_table_and_each_named_task_another():
    names = [table_name(JOB, task) for task in (None, Task("ps", 0), Task("worker", 0))]
    names.append(table_name(Job(ps_hosts=("a:2222",), worker_hosts=("b:2222",)), None))
    assert len(set(names)) == 4 and all(re.fullmatch("ps_train_[0-9a-f]{12}", name) for name in names)
    assert table_name(JOB, None) == names[0]


def test_a_cluster_file_gives_the_name_whatever_is_in_it():
    first, later = (Job(ps_hosts=(host,), worker_hosts=("b:2",), cluster_file="/c.json") for host in ("a:1", "z:1"))
    assert table_name(first, None) == table_name(later, None)


def test_files_of_one_name_in_two_directories_are_of_two_jobs(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set()
    for directory in (tmp_path / "a", tmp_path / "b"):
        directory.mkdir()
        monkeypatch.chdir(directory)
        for file in ("c.json", "./c.json", f"{directory}/c.json"):
            names.add(table_name(Job(ps_hosts=("a:1",), worker_hosts=("b:2",), cluster_file=file), None))
    assert len(names) == 2


@needs_namespaces
@needs_nft
@pytest.mark.parametrize(
    "rules",
    [
        Rules("ps_train_x", frozenset({2222}), networks()),
        Rules("ps_train_x", frozenset({1, 65535}), networks("10.0.0.0/8", "10.1.0.0/16", "::/0", "0.0.0.0/0")),
        Rules(
            "ps_train_x",
            frozenset({2222, 6006}),
            networks("fd00::5"),
            frozenset({6006, 8080}),
            networks("10.9.0.0/16", "10.9.0.1"),
        ),
    ],
)
def test_nft_accepts_the_text_twice_and_removes_it(rules):
    with hosts("10.79.2.1") as (host,):

        def nft(*arguments, text=""):
            command = [*host.prefix, "nft", *arguments]
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr + text
            return done.stdout

        other = "table inet other {\n\tchain input {\n\t}\n}\n"
        nft("-f", "-", text=other)
        nft("-c", "-f", "-", text=rules.text())
        nft("-f", "-", text=rules.text())
        once = nft("list", "ruleset")
        nft("-f", "-", text=rules.text())
        assert nft("list", "ruleset") == once and "ps_train_x" in once
        for _ in range(2):
            nft("-f", "-", text=removal("ps_train_x"))
            assert nft("list", "ruleset") == other
