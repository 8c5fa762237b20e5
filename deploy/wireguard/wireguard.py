"""WireGuard configurations for the hosts of a job, from its flagfile: `wg0.conf` for each host, and host lists.

    python deploy/wireguard/wireguard.py --flagfile=job.flags --out=wg --network=10.77.0.0/24

It writes `HOST.conf` (mode 0600: it holds the host's private key) and `wireguard.flags`, host lists with the addresses
inside of the network.  Hosts that were written before keep their keys and addresses.  Needs the program `wg`.
Exit code 0: written; 2: a wrong argument, flagfile or directory.
"""

from __future__ import annotations

import argparse
import configparser
import ipaddress
import os
import pathlib
import re
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.flags import parse

PORT = 51820
_KEY = re.compile(r"[A-Za-z0-9+/]{43}=")
_FILE_NAME = re.compile(r"[A-Za-z0-9_.:-]+")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def wg(*arguments: str, given: str = "") -> str:
    """Returns what the program `wg` prints."""
    try:
        done = subprocess.run(["wg", *arguments], input=given, capture_output=True, text=True)
    except FileNotFoundError:
        raise ConfigError(
            "the program wg is not there: install it (Debian: apt-get install wireguard-tools)."
        ) from None
    if done.returncode:
        raise ConfigError(f"wg {arguments[0]} failed: {done.stderr.strip()[:200]}")
    return done.stdout.strip()


def key_and_address(path: pathlib.Path, network: Network) -> tuple[str, str]:
    """Returns the private key and the address in an earlier file; new empty texts where there is none."""
    if not path.exists():
        return "", ""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"{path} is readable by others and holds a key: chmod 600 it, or remove it for a new key.")
    found = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        found.read_string(path.read_text())
        key, address = found["Interface"]["PrivateKey"], found["Interface"]["Address"].partition("/")[0]
        valid = bool(_KEY.fullmatch(key)) and ipaddress.ip_address(address) in network
    except (configparser.Error, KeyError, ValueError):
        valid = False
    if not valid:
        raise ConfigError(f"{path} is not a configuration of a host in {network}: remove it for a new key.")
    return key, address


def addresses_of(hosts: Sequence[str], earlier: Mapping[str, str], network: Network) -> dict[str, str]:
    """Returns each host's address in the network: its earlier one, or the next free one.

    Args:
      hosts: the hosts of the job.
      earlier: the addresses of these and of hosts that were there before.
      network: the network.
    """
    for address in earlier.values():
        if len(same := [host for host, other in earlier.items() if other == address]) > 1:
            raise ConfigError(
                f"{' and '.join(same)} have the same address, {address}: remove the .conf of one of them."
            )
    used, found = set(earlier.values()), dict(earlier)
    free = (str(address) for address in network.hosts() if str(address) not in used)
    for host in hosts:
        if host not in found:
            address = next(free, None)
            if address is None:
                raise ConfigError(f"network={network} is too small for {len(hosts)} hosts: use a larger one.")
            found[host] = address
    return {host: found[host] for host in hosts}


def configuration(host: str, keys: Mapping[str, str], addresses: Mapping[str, str], network: Network, port: int) -> str:
    """Returns the configuration of a host: its own key, and every other host as a peer."""
    lines = [
        "# Made by deploy/wireguard/wireguard.py; make it again when the host lists change.",
        "[Interface]",
        f"Address = {addresses[host]}/{network.prefixlen}",
        f"PrivateKey = {keys[host]}",
        f"ListenPort = {port}",
    ]
    for peer in (name for name in addresses if name != host):
        endpoint = f"[{peer}]:{port}" if ":" in peer else f"{peer}:{port}"
        lines += ["", f"# {peer}", "[Peer]", f"PublicKey = {wg('pubkey', given=keys[peer])}"]
        lines += [f"AllowedIPs = {addresses[peer]}/{network.max_prefixlen}", f"Endpoint = {endpoint}"]
    return "\n".join([*lines, ""])


def flags_of(cluster: Cluster, addresses: Mapping[str, str]) -> str:
    """Returns host lists with the addresses in the network."""
    numbered = sorted(cluster.workers) != list(range(len(cluster.workers)))
    lists: dict[str, list[str]] = {"ps": [], "chief": [], "worker": []}
    for task, address in cluster.tasks().items():
        name, _, index = task.partition(":")
        inside = addresses[address.host]
        text = f"[{inside}]:{address.port}" if ":" in inside else f"{inside}:{address.port}"
        lists[name].append(f"{index}={text}" if name == "worker" and numbered else text)
    lines = [f"--{name}_hosts={','.join(hosts)}" for name, hosts in lists.items() if hosts]
    return "\n".join(["# Give it after the job's own flagfile, on every host.", *lines, ""])


def _write(path: pathlib.Path, text: str, mode: int) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    new.replace(path)


def _run(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(prog="wireguard.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flagfile", required=True, help="the flagfile of the job")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory of the files, private to you")
    parser.add_argument("--network", default="10.77.0.0/24", help="the private network of the hosts (%(default)s)")
    parser.add_argument("--port", type=int, default=PORT, help="UDP port of WireGuard (%(default)s)")
    given = parser.parse_args(arguments)
    try:
        network = ipaddress.ip_network(given.network)
    except ValueError as error:
        raise ConfigError(f"network is not valid ({error}): use for example 10.77.0.0/24.") from None
    unusable = network.is_loopback or network.is_link_local or network.is_multicast or network.is_reserved
    if not network.is_private or unusable or network.network_address.packed[0] == 0 or not 1 <= given.port <= 65535:
        raise ConfigError(
            f"network={network} and port={given.port}: use a private network, and a port from 1 to 65535."
        )
    cluster = Cluster.of(parse([f"--flagfile={given.flagfile}"], {}).job)
    hosts = sorted({address.host for address in cluster.tasks().values()})
    if bad := [host for host in hosts if not _FILE_NAME.fullmatch(host)]:
        raise ConfigError(f"{bad[0]!r} cannot be the name of a file: use the host's address in the flagfile.")
    given.out.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = {*hosts, *(path.name.removesuffix(".conf") for path in given.out.glob("*.conf"))}
    # A host that is away keeps its address.
    earlier = {host: key_and_address(given.out / f"{host}.conf", network) for host in sorted(known)}
    keys = {host: earlier[host][0] or wg("genkey") for host in hosts}
    addresses = addresses_of(hosts, {host: found[1] for host, found in earlier.items() if found[1]}, network)
    for host in hosts:
        _write(given.out / f"{host}.conf", configuration(host, keys, addresses, network, given.port), 0o600)
        print(f"{host} is {addresses[host]}: copy {given.out / f'{host}.conf'} to its /etc/wireguard/wg0.conf")
    _write(given.out / "wireguard.flags", flags_of(cluster, addresses), 0o644)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the files; returns the exit code."""
    try:
        _run(arguments)
    except (ConfigError, OSError) as error:
        print(f"wireguard.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
