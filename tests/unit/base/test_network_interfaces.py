"""Public addresses: which ones they are, where they are found, and that no task serves at them."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys

import pytest

from ps_train.base import network_interfaces
from ps_train.base.errors import ConfigError
from ps_train.base.network_interfaces import (
    ALLOW_VARIABLE,
    InterfaceAddress,
    is_loopback,
    is_public,
    listed,
    local_addresses,
    public_addresses,
    refuse_public_ports,
)
from tests.support.machine.namespaces import hosts, needs_namespaces

PUBLIC = """
8.8.8.8 1.1.1.1 11.0.0.1 100.63.255.255 100.128.0.1 172.15.255.255 172.32.0.1 192.0.1.1 192.167.255.255 192.169.0.1
198.17.255.255 198.20.0.1 203.0.114.1 223.255.255.255 2600::1 2a00:1450:4001:800::200e 2001:4860:4860::8888 2001:0:1::1
2001:db7:ffff::1 2001:db9::1 2002:808:808::1 ::ffff:8.8.8.8 64:ff9b::808:808 101::1 fb00::1
"""
PRIVATE = """
0.0.0.0 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.0.1 169.254.169.254 172.16.0.1
172.31.255.255 192.0.0.8 192.0.2.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.9 224.0.0.1 240.0.0.1
255.255.255.255 :: ::1 fe80::1 febf::1 fec0::1 fc00::1 fd12:3456::1 ff02::1 2001:db8::1 3fff::1 100::1 100:0:0:1::1
2001:2::1 2001:10::1 5f00::1 64:ff9b:1::1 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1::1
"""


@pytest.mark.parametrize("text", PUBLIC.split())
def test_an_address_of_the_internet_is_public(text):
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PRIVATE.split())
def test_an_address_of_a_private_or_special_network_is_not(text):
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST", "localhost.", "LocalHost."]
)
def test_the_loopback_has_many_names(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "h", "", ".", "localhost..", "localhost.evil", "127.0.0.1.evil", "::2"])
def test_other_names_are_not_the_loopback(host):
    assert not is_loopback(host)


def test_this_machine_has_the_loopback_in_the_kernels_table_and_in_proc():
    loopback = InterfaceAddress("lo", ipaddress.ip_address("127.0.0.1"))
    assert loopback in local_addresses()
    netlink, proc = network_interfaces._from_netlink(), network_interfaces._from_proc("/")
    assert {one.address for one in netlink} <= {one.address for one in proc}


def test_the_tables_in_proc_are_read_where_the_kernel_does_not_answer(tmp_path, monkeypatch):
    def denied():
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(network_interfaces, "_from_netlink", denied)
    (tmp_path / "proc/net").mkdir(parents=True)
    trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n        |-- 203.0.113.9\n           /32 host LOCAL\n"
    (tmp_path / "proc/net/fib_trie").write_text(trie)
    rows = ["26000000000000000000000000000001 02 40 00 80 eth0", "26000000000000000000000000000002 02 40 00 88 eth0"]
    (tmp_path / "proc/net/if_inet6").write_text("\n".join(rows) + "\n")
    assert [str(one) for one in local_addresses(str(tmp_path))] == ["203.0.113.9", "2600::1 (eth0)"]
    with pytest.raises(OSError):
        local_addresses(str(tmp_path / "nothing"))


def with_addresses(monkeypatch, *texts):
    monkeypatch.delenv(ALLOW_VARIABLE, raising=False)
    found = [InterfaceAddress("eth0", ipaddress.ip_address(text)) for text in texts]
    monkeypatch.setattr(network_interfaces, "local_addresses", lambda: found)


def test_a_public_address_is_refused_with_what_to_do(monkeypatch):
    with_addresses(monkeypatch, "10.0.0.1", "11.0.0.1")
    with pytest.raises(ConfigError) as caught:
        refuse_public_ports("worker:0")
    text = str(caught.value)
    assert text.startswith("worker:0 does not start") and "11.0.0.1 (eth0)" in text and "10.0.0.1" not in text
    assert all(way in text for way in ("private network", "firewall", "--allow_public_ports")) and "\n" not in text


@pytest.mark.parametrize("value", ["", "0", "true"])
def test_the_variable_allows_it_with_1_alone(monkeypatch, value):
    with_addresses(monkeypatch, "2600::1")
    monkeypatch.setenv(ALLOW_VARIABLE, value)
    with pytest.raises(ConfigError):
        refuse_public_ports("ps:0")
    monkeypatch.setenv(ALLOW_VARIABLE, "1")
    assert listed(refuse_public_ports("ps:0")) == "2600::1 (eth0)"


def test_the_flag_allows_it_and_private_addresses_need_no_flag(monkeypatch):
    with_addresses(monkeypatch, "2600::1")
    assert len(refuse_public_ports("ps:0", allowed=True)) == 1
    with_addresses(monkeypatch, "10.0.0.1", "fd00::1", "fe80::1", "127.0.0.1", "::1")
    assert refuse_public_ports("ps:0") == []


def test_addresses_that_cannot_be_read_are_refused_too(monkeypatch):
    with_addresses(monkeypatch)

    def denied():
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(network_interfaces, "local_addresses", denied)
    with pytest.raises(ConfigError, match=r"cannot be read .*Operation not permitted"):
        refuse_public_ports("ps:0")
    assert refuse_public_ports("ps:0", allowed=True) == []


def test_many_addresses_are_a_short_text():
    found = [InterfaceAddress("", ipaddress.ip_address(f"11.0.0.{number}")) for number in range(9)]
    assert listed(found) == "11.0.0.0, 11.0.0.1, 11.0.0.2 and 6 more"


LISTING = """
import json
from ps_train.base.network_interfaces import public_addresses
print(json.dumps([str(one) for one in public_addresses()]))
"""


@needs_namespaces
def test_addresses_of_a_host_are_found_on_every_interface_that_is_up():
    with hosts("10.79.0.1") as (host,):

        def found():
            return json.loads(host.run(sys.executable, "-c", LISTING).stdout)

        assert found() == []
        host.add_address("11.0.0.1/24")
        host.add_address("11.0.0.2/24")  # a second one of the same network
        host.add_address("2600::1/64")
        for command in (["add", "d0", "type", "bridge"], ["add", "d1", "type", "bridge"], ["set", "d0", "up"]):
            assert host.run("ip", "link", *command).returncode == 0
        for address, device in (("11.1.0.1/32", "d0"), ("11.2.0.1/32", "d1"), ("11.3.0.1/32", "lo")):
            assert host.run("ip", "address", "add", address, "dev", device).returncode == 0
        assert host.run("ip", "address", "add", "10.5.0.1", "peer", "11.9.9.9", "dev", "d0").returncode == 0
        expected = {"11.0.0.1 (eth0)", "11.0.0.2 (eth0)", "2600::1 (eth0)", "11.1.0.1 (d0)", "11.3.0.1 (lo)"}
        assert set(found()) == expected
        assert host.run("ip", "link", "set", "eth0", "down").returncode == 0
        assert set(found()) == {"11.1.0.1 (d0)", "11.3.0.1 (lo)"}


def test_the_module_needs_the_standard_library_alone():
    program = "import sys, ps_train.base.network_interfaces; print('numpy' in sys.modules or 'absl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
    assert isinstance(public_addresses(), list)
