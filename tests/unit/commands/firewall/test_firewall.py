"""The firewall's command: rules from flags, cluster files and names, and what is refused.  Nothing is applied here."""

from __future__ import annotations

import io
import ipaddress
import json
import os

import pytest

from ps_train.base.console import Console
from ps_train.base.errors import ConfigError
from ps_train.base.network_interfaces import InterfaceAddress
from ps_train.commands.firewall import firewall
from ps_train.commands.firewall.firewall import RuleSource, main
from ps_train.config import flags

HERE = "10.0.0.1"
NAMES = {"a": [HERE], "b": ["10.0.0.2", "fd00::2"], "c": ["10.0.0.3"], "localhost": ["127.0.0.1"]}
LISTS = ("--ps_hosts=a:2222", "--worker_hosts=b:2222,c:2223,a:2224")


@pytest.fixture(autouse=True)
def this_host(monkeypatch):
    found = [InterfaceAddress("eth0", ipaddress.ip_address(text)) for text in (HERE, "127.0.0.1")]
    monkeypatch.setattr(firewall, "local_addresses", lambda: found)


class Source:
    """A source of rules with names of its own."""

    def __init__(self, *arguments, admit=(), viewers=()):
        self.warnings, self.names = [], dict(NAMES)
        nets = [frozenset(map(ipaddress.ip_network, texts)) for texts in (admit, viewers)]

        def resolve(names):
            return {name: (self.names.get(name, []), "" if name in self.names else "unknown") for name in names}

        self.made = RuleSource(
            lambda: flags.parse(arguments, {}), firewall._Options(*nets), self.warnings.append, resolve
        )

    def rules(self):
        return self.made.rules()


def texts(members):
    return sorted(str(one.network_address if one.num_addresses == 1 else one) for one in members)


def test_the_ports_are_those_of_this_host_and_the_members_all_hosts():
    rules = Source(*LISTS).rules()
    assert rules.ports == {2222, 2224}
    assert texts(rules.members) == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::2"]


def test_the_workers_of_racks_have_a_further_port_which_must_be_known():
    racks = ("--update=sync", "--rack=x")
    assert Source(*LISTS, *racks, "--rack_port=3000").rules().ports == {2222, 2224, 3000}
    assert Source(*LISTS, *racks, "--rack_port=3000", "--job_name=ps", "--task_index=0").rules().ports == {2222}
    with pytest.raises(ConfigError, match="on a free port, which no rule can name; give the job a --rack_port"):
        Source(*LISTS, *racks).rules()


def test_a_named_task_has_the_port_of_its_own_and_a_table_of_its_own():
    source = Source(*LISTS, "--job_name=worker", "--task_index=1")
    assert source.rules().ports == {2223}  # although c is not this host, as it sees itself
    assert source.made.table != Source(*LISTS).made.table


def test_a_host_of_no_task_and_a_job_without_hosts_are_refused():
    with pytest.raises(ConfigError, match=r"no task of the job is on this host.*10\.0\.0\.1.*--job_name"):
        Source("--ps_hosts=b:1", "--worker_hosts=c:1").rules()
    with pytest.raises(ConfigError, match="no host lists"):
        Source("--num_ps=2")
    with pytest.raises(ConfigError, match="opens no port"):
        Source(*LISTS, "--job_name=evaluator")
    with pytest.raises(ConfigError, match="out of range"):
        Source(*LISTS, "--job_name=ps", "--task_index=7").rules()


def test_a_name_that_is_lost_keeps_its_addresses_and_a_new_one_is_admitted_later():
    source = Source("--ps_hosts=a:1", "--worker_hosts=b:1,new:1")
    assert texts(source.rules().members) == ["10.0.0.1", "10.0.0.2", "fd00::2"]
    assert len(source.warnings) == 1 and "'new' is not resolved" in source.warnings[0]
    del source.names["b"]
    source.names["new"] = ["10.0.0.9"]
    assert texts(source.rules().members) == ["10.0.0.1", "10.0.0.2", "10.0.0.9", "fd00::2"]
    assert len(source.warnings) == 1
    source.names["b"] = ["10.0.0.22"]
    assert texts(source.rules().members) == ["10.0.0.1", "10.0.0.22", "10.0.0.9"]


def test_elastic_workers_need_a_network():
    source = Source(*LISTS, "--max_workers=9")
    source.rules()
    assert len(source.warnings) == 1 and "--admit=NETWORK" in source.warnings[0]
    source = Source(*LISTS, "--max_workers=9", admit=["10.7.0.0/16"])
    assert "10.7.0.0/16" in texts(source.rules().members) and source.warnings == []


def test_the_status_page_counts_where_the_chief_serves_it_to_others():
    status = ("--status_port=6006", "--status_host=0.0.0.0")
    chief_here = ("--ps_hosts=b:1", "--worker_hosts=a:2")
    rules = Source(*chief_here, *status, viewers=["10.9.0.0/16"]).rules()
    assert rules.ports == {2, 6006} and rules.pages == {6006} and texts(rules.viewers) == ["10.9.0.0/16"]
    assert Source(*chief_here, "--status_port=6006").rules().ports == {2}  # on the loopback
    assert Source("--ps_hosts=a:1", "--worker_hosts=b:2", *status).rules().ports == {1}
    source = Source(*chief_here, "--status_port=0", "--status_host=0.0.0.0")
    assert source.rules().ports == {2} and "not protected" in source.warnings[0]


def test_the_health_of_every_task_counts_where_it_is_served_to_others():
    health = ("--ps_hosts=a:1", "--worker_hosts=b:2", "--health_port=8080")
    assert Source(*health).rules().ports == {1}  # on the loopback
    rules = Source(*health, "--status_host=0.0.0.0", viewers=["10.9.0.0/16"]).rules()
    assert rules.ports == {1, 8080} and rules.pages == {8080} and "tcp dport { 8080 }" in rules.text()
    source = Source(*health[:2], "--health_port=0", "--status_host=0.0.0.0")
    assert source.rules().ports == {1} and "health_port=0" in source.warnings[0]


def test_a_changed_cluster_file_changes_the_rules_and_not_the_table(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"ps": ["a:1"], "worker": ["b:1"]}))
    source = Source(f"--cluster_file={path}")
    assert texts(source.rules().members) == ["10.0.0.1", "10.0.0.2", "fd00::2"] and not source.made.has_changed()
    table = source.made.table
    path.write_text(json.dumps({"ps": ["a:1"], "worker": ["c:12"]}))
    os.utime(path, (1, 1))
    assert source.made.has_changed() and not source.made.has_changed()
    source.made.reread()
    assert texts(source.rules().members) == ["10.0.0.1", "10.0.0.3"] and source.rules().table == table
    path.write_text("{")
    with pytest.raises(ConfigError):
        source.made.reread()


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    code = main(arguments, Console(out, err))
    return code, out.getvalue(), err.getvalue()


def test_the_rules_are_printed_and_nothing_else():
    code, out, err = run("--ps_hosts=10.0.0.1:2222", "--worker_hosts=10.0.0.2:2222", "--admit=10.5.0.0/16,fd00::/8")
    assert code == 0 and err == "" and out.startswith("add table inet ps_train_") and out.endswith("}\n")
    assert "10.0.0.1, 10.0.0.2, 10.5.0.0/16" in out and "fd00::/8" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--admit=10.0.0.1/24"], "--admit=10.0.0.1/24 is not a network"),
        (["--admit=; drop"], "is not a network"),
        (["--admit="], "is not a network"),
        (["--", "sleep", "1"], "has no place without --apply"),
        (["--apply", "--remove"], "drop one"),
        (["--aply"], "aply"),
        (["--flagfile=/nowhere"], "/nowhere"),
        ([], "no host lists"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_code_2(arguments, text):
    code, out, err = run(*arguments)
    assert code == 2 and out == "" and text in err and err.count("\n") == 1
