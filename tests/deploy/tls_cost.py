"""`python -m tests.deploy.tls_cost`: steps per second of a job with and without tunnels, in interleaved runs."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

from tests.deploy.test_tls import ADDRESSES, PS_PORT, TASKS, Network
from tests.support.machine.net_hosts import missing, net_hosts, wait_for_port
from tests.support.machine.processes import Process, make_processes

MODELS = {
    "digits": ("ps_train.models.digits:Digits", ["--batch_size=32"]),
    "wide": (
        "tests.support.models.small:Linear",
        ["--model_arg=width=200000", "--batch_size=4", "--learning_rate=1e-7"],
    ),
}
"""A network of 75 KiB, and one variable of 0.8 MB of which most of a step is the transfer."""


def rate(network: Network, number: str, model: str, steps: int) -> float:
    """Steps per second of one run."""
    path, flags = MODELS[model]
    model_dir = network.directory / f"{model}-{number}"
    given = [f"--model={path}", "--update=async", f"--max_steps={steps}", *flags]
    if not network.uses_tunnels:  # the ports in the flagfile are those of the tunnels
        given += ["--ps_hosts=ps-a:2300", "--worker_hosts=worker-b:2300,worker-c:2300"]
    tasks = [network.start_task(host, model_dir, *given) for host in TASKS]
    for task in tasks:
        assert task.wait(580) == 0, task.output
    return float(json.loads((model_dir / "result.json").read_text())["steps_per_sec"])


SINK = """
import socket
server = socket.create_server(("0.0.0.0", {port}))
connection, _ = server.accept()
left = {mebibytes} << 20
while left:
    left -= len(connection.recv(1 << 20))
connection.sendall(b"all")
"""
SOURCE = """
import socket
connection = socket.create_connection(("127.0.0.1", {port}))
for _ in range({mebibytes}):
    connection.sendall(bytes(1 << 20))
assert connection.recv(3) == b"all"
"""


def cpu_secs(process: Process) -> float:
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_per_gib(network: Network, stunnels: dict[str, Process], mebibytes: int) -> dict[str, float]:
    """CPU seconds of each side's stunnel for a GiB from a worker to a ps; they do not depend on other load."""
    network.hosts.python("ps-a", "-c", SINK.format(port=PS_PORT, mebibytes=mebibytes))
    wait_for_port(network.hosts, "ps-a", PS_PORT)
    before = {host: cpu_secs(stunnels[host]) for host in ("worker-b", "ps-a")}
    source = network.hosts.python("worker-b", "-c", SOURCE.format(port=PS_PORT, mebibytes=mebibytes))
    assert source.wait(580) == 0, source.output
    return {host: (cpu_secs(stunnels[host]) - secs) * 1024 / mebibytes for host, secs in before.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.tls_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--models", default=",".join(MODELS))
    given = parser.parse_args()
    if why := missing("stunnel", "openssl", "tcpdump", "nft", "ss"):
        print(why)
        return 2
    found: dict[tuple[str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for processes in make_processes(pathlib.Path(directory)):
            with net_hosts(processes, ADDRESSES) as hosts:
                network = Network(hosts, pathlib.Path(directory))
                spent = cpu_per_gib(network, network.lay_tunnels(), given.mebibytes)
                print("CPU seconds of stunnel per GiB:", {host: round(secs, 2) for host, secs in spent.items()})
                for number in range(given.rounds):
                    for model in given.models.split(","):
                        for tunnels in (False, True):
                            network.uses_tunnels = tunnels
                            one = rate(network, f"{number}-{tunnels}", model, given.steps)
                            found.setdefault((model, tunnels), []).append(one)
                            print(f"{model} {'tunnels' if tunnels else 'plain'} {one:.1f} steps/s", flush=True)
    for model in given.models.split(","):
        plain, tunnelled = (statistics.median(found[model, tunnels]) for tunnels in (False, True))
        print(f"{model}: {tunnelled:.1f} / {plain:.1f} steps/s = {tunnelled / plain:.2f} (medians of {given.rounds})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
