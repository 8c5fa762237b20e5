"""The firewall with real packets: three hosts (network namespaces), two of a job and an outsider."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from tests.support.machine.namespaces import hosts, needs_namespaces, needs_nft
from tests.support.machine.processes import eventually

pytestmark = [pytest.mark.timeout(600), needs_namespaces, needs_nft]

SERVER, MEMBER, OUTSIDER = "10.79.3.1", "10.79.3.2", "10.79.3.3"
LISTS = (f"--ps_hosts={SERVER}:2222", f"--worker_hosts={MEMBER}:2222")
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 1.5).close()
    print("reached")
except OSError as error:
    print("not reached:", error)
"""
ECHO = """
import socket, socketserver, sys, threading
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    address_family, allow_reuse_address, daemon_threads = socket.AF_INET6, True, True
servers = [Server(("::", int(port)), Handler) for port in sys.argv[1:]]
for server in servers:
    threading.Thread(target=server.serve_forever).start()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("0.0.0.0", 2222))
print("ready", flush=True)
print("datagram of", datagrams.recv(100).decode(), flush=True)
"""
TALK = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 2222), 10)
connection.settimeout(3)
for line in sys.stdin:
    try:
        connection.sendall(line.encode())
        print("answer", connection.recv(100).decode().strip(), flush=True)
    except OSError as error:
        print("no answer", error, flush=True)
"""
CLIENT = """
import os, sys, threading
import tensorflow.compat.v1 as v1
v1.disable_eager_execution()
def call():
    try:
        config = v1.ConfigProto(operation_timeout_in_ms=5000)
        with v1.Session(f"grpc://{sys.argv[1]}:2222", config=config) as session:
            print("answer", session.run(v1.constant(42)), flush=True)
    except v1.errors.OpError as error:
        print("refused", type(error).__name__, flush=True)
thread = threading.Thread(target=call, daemon=True)
thread.start()
thread.join(15)
print("alive" if thread.is_alive() else "over", flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def network():
    with hosts(SERVER, MEMBER, OUTSIDER) as found:
        for host, address in zip(found, ("fd79::1/64", "fd79::2/64", "fd79::3/64"), strict=True):
            host.add_address(address)
        yield found


def python(processes, host, *arguments):
    return processes.command([*host.prefix, sys.executable, *arguments])


def firewall(processes, host, *arguments):
    return python(processes, host, "-m", "ps_train", "firewall", *(arguments or LISTS), "--apply")


def reaches(host, address=SERVER, port=2222):
    return host.run(sys.executable, "-c", CONNECT, address, str(port)).stdout.startswith("reached")


def tables(host):
    return re.findall(r"table inet (\w+)", host.run("nft", "list", "tables").stdout)


def locks(host):
    """The files that a firewall in this namespace holds, or has left when it was killed."""
    namespace = host.run("stat", "-Lc", "%i", "/proc/self/ns/net").stdout.strip()
    assert namespace
    return list(pathlib.Path("/run").glob(f"ps_train_*.{namespace}.lock"))


@pytest.fixture(autouse=True)
def no_rules(network):
    """Removes the rules of a killed process after each test."""
    yield
    for host in network:
        host.run("nft", "flush", "ruleset")
        for path in locks(host):
            path.unlink()


@pytest.fixture
def echo(processes, network):
    """A server on two ports of the first host."""
    process = python(processes, network[0], "-c", ECHO, "2222", "2223")
    process.wait_for("ready")
    return process


def test_only_members_and_the_host_itself_reach_the_port_in_both_families(processes, network, echo):
    server, member, outsider = network
    workers = f"--worker_hosts={MEMBER}:2222,[fd79::2]:2223,[fd79::1]:2224"
    process = firewall(processes, server, LISTS[0], workers)
    process.wait_for("are admitted")
    for address in (SERVER, "fd79::1"):
        assert reaches(member, address) and reaches(server, address) and not reaches(outsider, address)
    assert reaches(server, "127.0.0.1") and reaches(server, "::1")
    assert reaches(outsider, port=2223)  # not a port of the job
    send = (
        f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'the outsider', ('{SERVER}', 2222))"
    )
    outsider.run(sys.executable, "-c", send)
    echo.wait_for("datagram of the outsider")  # another protocol
    process.send(signal.SIGTERM)
    assert process.wait(30) == 0 and tables(server) == [] and reaches(outsider)
    assert "is removed" in process.output and locks(server) == []


@pytest.mark.usefixtures("echo")
def test_an_open_connection_of_an_outsider_ends_with_the_rules(processes, network):
    server, member, outsider = network
    talks = [
        subprocess.Popen(
            [*host.prefix, sys.executable, "-c", TALK, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for host in (member, outsider)
    ]

    def said(talk, text):
        talk.stdin.write(text + "\n")
        talk.stdin.flush()
        return talk.stdout.readline().strip()

    try:
        assert [said(talk, "one") for talk in talks] == ["answer one"] * 2
        process = firewall(processes, server)
        process.wait_for("are admitted")
        assert said(talks[0], "two") == "answer two" and said(talks[1], "two").startswith("no answer")
    finally:
        for talk in talks:
            talk.kill()
            talk.communicate()


@pytest.mark.usefixtures("echo")
def test_the_rules_live_as_long_as_the_command_whose_code_is_passed_on(processes, network):
    server, _, outsider = network
    script = "trap 'exit 7' TERM; echo begun; while :; do sleep 0.1; done"
    process = python(processes, server, "-m", "ps_train", "firewall", *LISTS, "--apply", "--", "sh", "-c", script)
    process.wait_for("begun")
    assert not reaches(outsider) and len(tables(server)) == 1
    process.send(signal.SIGTERM)
    assert process.wait(30) == 7 and tables(server) == []
    process = python(processes, server, "-m", "ps_train", "firewall", *LISTS, "--apply", "--", "sh", "-c", "kill -9 $$")
    assert process.wait(60) == 137 and tables(server) == []
    process = python(processes, server, "-m", "ps_train", "firewall", *LISTS, "--apply", "--", "/no/such/command")
    assert process.wait(60) == 2 and tables(server) == [] and "/no/such/command cannot be started" in process.output


@pytest.mark.usefixtures("echo")
def test_rules_of_a_killed_firewall_stay_closed_until_they_are_replaced_or_removed(processes, network):
    server, _, outsider = network
    other = "table inet other {\n}\n"
    subprocess.run([*server.prefix, "nft", "-f", "-"], input=other, text=True, check=True)
    process = firewall(processes, server)
    process.wait_for("are admitted")
    second = firewall(processes, server)
    assert second.wait(60) == 2 and f"process {process.pid} applies the rules of this job" in second.output
    beside = firewall(processes, server, f"--ps_hosts={SERVER}:2223", f"--worker_hosts={OUTSIDER}:2222")
    beside.wait_for("are admitted")
    assert reaches(outsider, port=2223) and not reaches(outsider)  # two jobs, each with its table
    beside.send(signal.SIGTERM)
    assert beside.wait(30) == 0
    process.send(signal.SIGKILL)
    assert not reaches(outsider) and len(tables(server)) == 2
    third = firewall(processes, server)
    third.wait_for("are admitted")
    third.send(signal.SIGKILL)
    for _ in range(2):  # the second time there is nothing to remove
        remover = python(processes, server, "-m", "ps_train", "firewall", *LISTS, "--remove")
        assert remover.wait(60) == 0 and "is removed" in remover.output
        assert tables(server) == ["other"] and reaches(outsider)
    server.run("nft", "delete", "table", "inet", "other")


@pytest.mark.usefixtures("echo")
def test_a_changed_cluster_file_and_a_removed_table_are_noticed(processes, network):
    server, member, outsider = network
    path = processes.directory / "cluster.json"
    path.write_text(json.dumps({"ps": [f"{SERVER}:2222"], "worker": [f"{MEMBER}:2222"]}))
    process = firewall(processes, server, f"--cluster_file={path}")
    process.wait_for("are admitted")
    path.write_text("{")
    process.wait_for("the rules stay as they were")
    assert reaches(member) and not reaches(outsider)
    path.write_text(json.dumps({"ps": [f"{SERVER}:2222"], "worker": [f"{OUTSIDER}:2222"]}))
    process.wait_for("new rules")
    assert reaches(outsider) and not reaches(member)
    server.run("nft", "flush", "ruleset")
    assert reaches(member)
    eventually(lambda: tables(server), 30, "the return of the table")
    assert not reaches(member)


def test_without_the_right_or_the_program_there_is_one_line(processes, network):
    command = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", sys.executable, "-m"]
    process = processes.command([*network[0].prefix, *command, "ps_train", "firewall", *LISTS, "--apply"])
    assert process.wait(60) == 2, process.output
    assert "not permitted" in process.output and "as root" in process.output and len(process.lines) == 1
    no_nft = "from ps_train.base.console import Console\n"
    no_nft += "from ps_train.commands.firewall import firewall, nftables\nimport sys\n"
    no_nft += "nftables._ALSO_IN = ''; sys.exit(firewall.main(sys.argv[1:], Console(sys.stdout, sys.stderr)))"
    process = processes.command(
        [*network[0].prefix, "env", "PATH=/nowhere", sys.executable, "-c", no_nft, *LISTS, "--apply"]
    )
    assert process.wait(60) == 2 and len(process.lines) == 1 and "install nftables" in process.output


@pytest.mark.long
def test_a_member_trains_and_an_outsider_is_refused_also_after_a_ps_restarts(processes, network):
    server, member, outsider = network
    rules = [firewall(processes, host) for host in (server, member)]
    for process in rules:
        process.wait_for("are admitted")
    job = [
        *LISTS,
        "--model=tests.support.models.small:Linear",
        "--max_steps=100000000",
        "--log_secs=0.2",
        "--save_secs=1",
    ]

    def start(host, *own):
        return python(processes, host, "-m", "ps_train", *job, *own)

    ps = start(server, "--job_name=ps", "--task_index=0")
    worker = start(member, "--job_name=worker", "--task_index=0", "--model_dir=m")

    def steps():
        found = re.findall(r"step +([\d,]+)", worker.output)
        return int(found[-1].replace(",", "")) if found else 0

    def outsider_is_refused():
        clients = {host: python(processes, host, "-c", CLIENT, SERVER) for host in (outsider, member)}
        assert clients[outsider].wait(100) == 0 and clients[member].wait(100) == 0
        assert "answer 42" in clients[member].output, clients[member].output
        assert "refused" in clients[outsider].output and "over" in clients[outsider].lines, clients[outsider].output
        assert "answer" not in clients[outsider].output

    eventually(lambda: steps() > 50, 240, "some steps")
    outsider_is_refused()
    ps.send(signal.SIGKILL)
    before = steps()
    ps = start(server, "--job_name=ps", "--task_index=0")
    eventually(lambda: steps() > before + 50, 240, "steps after the restart")
    outsider_is_refused()
    assert int(re.findall(r"counter packets (\d+)", server.run("nft", "list", "ruleset").stdout)[0]) > 0
    worker.send(signal.SIGTERM)
    assert worker.wait(60) == 143 and ps.wait(60) == 143, worker.output + ps.output
    for process in rules:
        process.send(signal.SIGTERM)
        assert process.wait(30) == 0
    assert tables(server) == tables(member) == []
