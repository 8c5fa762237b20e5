"""--hosts: tasks, their addresses, and what is refused in one line."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.launch.hosts import RemoteTask, parse_hosts


def short(text, port=2222):
    return [(task.name, task.host, task.address) for task in parse_hosts(text, port)]


def test_roles_of_all_hosts_become_tasks_with_ports_of_their_own():
    assert short("a:ps,b:worker*2,c:worker*2") == [
        ("ps:0", "a", "a:2222"),
        ("worker:0", "b", "b:2222"),
        ("worker:1", "b", "b:2223"),
        ("worker:2", "c", "c:2222"),
        ("worker:3", "c", "c:2223"),
    ]


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("b:worker, a:ps", RemoteTask("worker:0", "b", "b:7000")),
        ("a:ps,a:worker", RemoteTask("worker:0", "a", "a:7001")),
        ("a:ps,me.x@b:worker", RemoteTask("worker:0", "me.x@b", "b:7000")),
        ("a:ps,b=10.0.0.2:worker", RemoteTask("worker:0", "b", "10.0.0.2:7000")),
        ("a=10.0.0.2:ps,b=10.0.0.2:worker", RemoteTask("worker:0", "b", "10.0.0.2:7001")),
        ("a:ps,me@[fd00::2]:worker", RemoteTask("worker:0", "me@fd00::2", "[fd00::2]:7000")),
        ("a:ps,b=[fd00::2]:worker*1", RemoteTask("worker:0", "b", "[fd00::2]:7000")),
        ("localhost:ps,localhost:worker", RemoteTask("worker:0", "localhost", "localhost:7001")),
        ("a:ps,b:chief", RemoteTask("chief:0", "b", "b:7000")),
    ],
)
def test_forms_of_an_entry(text, task):
    assert task in parse_hosts(text, 7000)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("  ", "empty"),
        (",", "the entry ''"),
        ("a:ps,", "the entry ''"),
        ("a:ps,b", "the entry 'b'"),
        ("a:ps,b:", "the role ''"),
        ("a:ps,:worker", "the entry ':worker'"),
        ("a:ps,b:master", "the role 'master'"),
        ("a:ps,b:Worker", "the role 'Worker'"),
        ("a:ps,b:worker*0", "the count '0'"),
        ("a:ps,b:worker*", "the count ''"),
        ("a:ps,b:worker*-1", "the count '-1'"),
        ("a:ps,b:worker*2*2", "the count '2*2'"),
        ("a:ps,b:worker*1001", "the count '1001'"),
        ("a:ps,b:worker,b:worker", "b:worker twice: use b:worker*2"),
        ("a:ps", "no worker"),
        ("a:ps,b:chief*2", "2 chiefs"),
        ("a:ps,-oProxyCommand=x:worker", "the entry '-oProxyCommand=x:worker'"),
        ("a:ps,-x@b:worker", "the entry"),
        ("a:ps,b c:worker", "the entry"),
        ("a:ps,b;reboot:worker", "the entry"),
        ("a:ps,fd00::2:worker", "the entry"),
        ("a:ps,b=:worker", "the entry"),
        ("localhost:ps,b:worker", "localhost=ADDRESS"),
        ("127.0.0.1:ps,b:worker", "127.0.0.1=ADDRESS"),
        ("a:ps,b..c:worker", "is not a name"),
    ],
)
def test_a_wrong_list_is_one_line_that_says_what_is_wrong(text, part):
    with pytest.raises(ConfigError) as caught:
        parse_hosts(text, 2222)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_more_tasks_than_ports_are_refused():
    with pytest.raises(ConfigError, match="65536"):
        parse_hosts("a:ps,a:worker", 65535)
