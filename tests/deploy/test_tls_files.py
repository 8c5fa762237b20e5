"""The files of deploy/tls: the CA refuses what would harm it; tunnels are generated from a checked flagfile."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import stat
import subprocess
import sys

import pytest

from tests.support.machine.fork_server import ROOT
from tests.support.machine.processes import eventually

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the program openssl is missing")

FLAGS = "--ps_hosts=ps-a:2222,10.0.0.2:2222\n--worker_hosts=0=10.0.0.2:2223,3=worker-b:2222\n--num_workers=4\n"


def script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "deploy/tls" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def refused(done: subprocess.CompletedProcess[str], text: str) -> None:
    assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.fixture
def pki(tmp_path: pathlib.Path) -> pathlib.Path:
    assert script("ca.py", "init", tmp_path / "pki").returncode == 0
    return tmp_path / "pki"


def tunnels(directory: pathlib.Path, host: str, *options: str, flags: str = FLAGS) -> subprocess.CompletedProcess[str]:
    (directory / "job.flags").write_text(flags)
    keys = [] if any(option.startswith("--keys") for option in options) else [f"--keys={directory}/pki/hosts/{host}"]
    out = f"--out={directory / 'out'}"
    return script("tunnels.py", f"--flagfile={directory / 'job.flags'}", f"--host={host}", *keys, out, *options)


def test_a_ca_is_private_and_never_replaced(pki: pathlib.Path) -> None:
    key = (pki / "ca.key").read_bytes()
    refused(script("ca.py", "init", pki), "never replaced")
    assert (pki / "ca.key").read_bytes() == key
    assert stat.S_IMODE(pki.stat().st_mode) == 0o700 and stat.S_IMODE((pki / "ca.key").stat().st_mode) == 0o600


def test_each_host_gets_a_key_of_its_own_that_others_cannot_read(pki: pathlib.Path) -> None:
    for host in ("a", "b"):
        assert script("ca.py", "issue", pki, host, "10.0.0.1").returncode == 0
    keys = [pki / "hosts" / host / "key.pem" for host in ("a", "b")]
    assert keys[0].read_bytes() != keys[1].read_bytes()
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)
    refused(script("ca.py", "issue", pki, "a"), "use --renew")
    assert script("ca.py", "issue", "--renew", pki, "a").returncode == 0
    text = ["openssl", "x509", "-in", str(pki / "hosts/a/cert.pem"), "-noout", "-ext", "subjectAltName"]
    assert "DNS:a, IP Address:10.0.0.1" in subprocess.run(text, capture_output=True, text=True, check=True).stdout


def test_a_ca_that_is_ended_while_it_is_made_leaves_no_key(tmp_path: pathlib.Path) -> None:
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    slow = bin_dir / "openssl"
    slow.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 60\n")
    slow.chmod(0o755)
    (tmp_path / "place").mkdir()
    command = [sys.executable, str(ROOT / "deploy/tls/ca.py"), "init", str(tmp_path / "place/pki")]
    with subprocess.Popen(command, env={**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}"}) as process:
        eventually((tmp_path / "begun").exists, what="openssl has begun")
        process.terminate()
        assert process.wait(30) == 128 + 15
    assert list((tmp_path / "place").iterdir()) == []


@pytest.mark.usual(4)
@pytest.mark.parametrize("name", ["*.example", "a/b", "../x", "a b", "", "a:1", "x" * 64, "-a", "a,DNS:b", "é"])
def test_a_name_that_is_no_host_is_refused(pki: pathlib.Path, name: str) -> None:
    refused(script("ca.py", "issue", pki, "--", name), "is not a host")
    assert list((pki / "hosts").iterdir()) == []


def test_the_list_of_revoked_certificates_reaches_every_host(pki: pathlib.Path) -> None:
    for host in ("a", "b"):
        script("ca.py", "issue", pki, host)
    before = (pki / "hosts/b/crl.pem").read_bytes()
    assert script("ca.py", "revoke", pki, "a").returncode == 0
    assert (pki / "hosts/b/crl.pem").read_bytes() == (pki / "crl.pem").read_bytes() != before
    refused(script("ca.py", "revoke", pki, "a"), "no valid certificate")
    refused(script("ca.py", "issue", pki.parent, "a"), "is not a CA")


@pytest.mark.parametrize("lost", ["pki/crl.pem", "pki/hosts/b/crl.pem"])
def test_a_revocation_that_was_interrupted_is_finished_by_the_next(
    pki: pathlib.Path, tmp_path: pathlib.Path, lost: str
) -> None:
    for host in ("a", "b"):
        script("ca.py", "issue", pki, host)
    before = (pki / "crl.pem").read_bytes()
    assert script("ca.py", "revoke", pki, "a").returncode == 0
    new = (pki / "crl.pem").read_bytes()
    (tmp_path / lost).write_bytes(before)  # it had not been made, or copied
    assert script("ca.py", "revoke", pki, "a").returncode == 0
    text = ["openssl", "crl", "-in", str(pki / "hosts/b/crl.pem"), "-noout", "-text"]
    assert subprocess.run(text, capture_output=True, text=True, check=True).stdout.count("Serial Number") == 1
    assert before != (pki / "crl.pem").read_bytes() == (pki / "hosts/b/crl.pem").read_bytes() != new
    refused(script("ca.py", "revoke", pki, "a"), "no valid certificate")


def test_hosts_whose_names_begin_alike_are_not_revoked_together(pki: pathlib.Path) -> None:
    start = "a" * 40 + "." + "b" * 20
    refused(script("ca.py", "issue", pki, f"{start}.one"), "has more than 64 characters")
    for host in (f"{start}.on", f"{start}.o"):
        assert script("ca.py", "issue", pki, host).returncode == 0
    assert "revoked 1 certificate of" in script("ca.py", "revoke", pki, f"{start}.o").stdout
    assert (pki / "hosts" / f"{start}.on").exists()


def test_tunnels_have_the_same_loopback_ports_on_every_host(pki: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for host in ("ps-a", "10.0.0.2", "worker-b"):
        script("ca.py", "issue", pki, host)
    done = tunnels(tmp_path, "10.0.0.2", "--first_port=30000")
    # The names have no addresses here, so the rules of the firewall cannot be made.
    refused(done, "the host ps-a has no address")
    flags = FLAGS.replace("ps-a", "10.0.0.1").replace("worker-b", "fd00::3").replace("fd00::3:", "[fd00::3]:")
    for host in ("10.0.0.1", "fd00::3"):
        script("ca.py", "issue", pki, host)
    lists = set()
    for host in ("10.0.0.1", "10.0.0.2", "fd00::3"):
        done = tunnels(tmp_path, host, "--first_port=30000", flags=flags)
        assert done.returncode == 0, done.stderr
        lists.add((tmp_path / "out/tunnels.flags").read_text())
    (found,) = lists
    assert "--ps_hosts=127.0.0.1:30000,127.0.0.1:30001\n" in found
    assert "--worker_hosts=0=127.0.0.1:30002,3=127.0.0.1:30003\n" in found
    # The last host has a worker: it serves the ps's hosts and reaches the ps.
    config = (tmp_path / "out/stunnel.conf").read_text()
    assert config.count("[") == 3 and "accept = fd00::3:2222\nconnect = 127.0.0.1:30003" in config
    assert "ip6 saddr" not in (tmp_path / "out/tunnels.nft").read_text()


@pytest.mark.usual(4)
@pytest.mark.parametrize(
    ("options", "flags", "text"),
    [
        ((), "--ps_hosts=localhost:1\n--worker_hosts=10.0.0.2:2\n", "no other host reaches"),
        (("--first_port=2220",), FLAGS, "a port in the host lists"),
        (("--first_port=65534",), FLAGS, "above 65535"),
        (("--first_port=80",), FLAGS, "1024 to 65535"),
        (("--listen=any",), FLAGS, "not an IP address"),
        (("--keys=relative",), FLAGS, "absolute path"),
        (("--keys=/nowhere",), FLAGS, "cannot be read"),
        ((), "--ps_hosts=10.0.0.1:1\n", "worker_hosts is empty"),
        (("--unknown",), FLAGS, "unrecognized arguments"),
    ],
)
def test_what_cannot_be_tunnelled_is_one_line(
    pki: pathlib.Path, tmp_path: pathlib.Path, options: tuple[str, ...], flags: str, text: str
) -> None:
    script("ca.py", "issue", pki, "10.0.0.2")
    refused(tunnels(tmp_path, "10.0.0.2", *options, flags=flags), text)
    assert not (tmp_path / "out").exists()


def test_a_key_that_others_can_read_and_a_certificate_of_another_host_are_refused(
    pki: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    script("ca.py", "issue", pki, "10.0.0.2")
    script("ca.py", "issue", pki, "ps-a")
    refused(tunnels(tmp_path, "10.0.0.2", f"--keys={pki}/hosts/ps-a"), "not the certificate of 10.0.0.2")
    (pki / "hosts/10.0.0.2/key.pem").chmod(0o640)
    refused(tunnels(tmp_path, "10.0.0.2"), "mode 0640")
    refused(tunnels(tmp_path, "10.0.0.9", "--keys=/x"), "no task in the host lists")


def test_files_that_do_not_belong_together_are_refused(pki: pathlib.Path, tmp_path: pathlib.Path) -> None:
    script("ca.py", "issue", pki, "10.0.0.2")
    script("ca.py", "issue", pki, "10.0.0.3")
    script("ca.py", "init", tmp_path / "other")
    mine = pki / "hosts/10.0.0.2"
    for name, other, text in (
        ("key.pem", (pki / "hosts/10.0.0.3/key.pem").read_text(), "is not the key of"),
        ("key.pem", "no key", "is not a key"),
        ("crl.pem", "no list", "is not the list of revoked certificates"),
        ("crl.pem", (tmp_path / "other/crl.pem").read_text(), "is not the list of revoked certificates"),
        ("ca.pem", (tmp_path / "other/ca.pem").read_text(), "is not the list of revoked certificates"),
    ):
        own = (mine / name).read_text()
        (mine / name).write_text(other)
        refused(tunnels(tmp_path, "10.0.0.2"), text)
        (mine / name).write_text(own)
    kept = tmp_path / "kept"
    shutil.copytree(mine, kept)
    assert script("ca.py", "revoke", pki, "10.0.0.2").returncode == 0
    shutil.copy(pki / "crl.pem", kept / "crl.pem")
    refused(tunnels(tmp_path, "10.0.0.2", f"--keys={kept}"), "certificate revoked")


def test_printed_commands_can_be_pasted(pki: pathlib.Path, tmp_path: pathlib.Path) -> None:
    script("ca.py", "issue", pki, "10.0.0.2")
    flags = "--ps_hosts=10.0.0.1:2222\n--worker_hosts=10.0.0.2:2222\n"
    done = tunnels(tmp_path, "10.0.0.2", f"--out={tmp_path / 'my tunnels'}", flags=flags)
    assert done.returncode == 0, done.stderr
    commands = [shlex.split(line) for line in done.stdout.splitlines()]
    assert commands[0] == ["nft", "-f", f"{tmp_path}/my tunnels/tunnels.nft"]
    assert f"--flagfile={tmp_path}/my tunnels/tunnels.flags" in commands[2]
