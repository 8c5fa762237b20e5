"""TLS tunnels for one host of a job, from the job's flagfile: what stunnel, the tasks and nftables need there.

    python deploy/tls/tunnels.py --flagfile=job.flags --host=host-a --keys=/etc/ps_train/tls --out=/etc/ps_train/tunnels

It writes three files, none of which is secret:

    stunnel.conf     tunnels to the tasks of other hosts, and the tunnel's end for each task of this host
    tunnels.flags    host lists for the tasks: every task is at a loopback port, the same on all hosts
    tunnels.nft      firewall rules: others reach neither the tunnels nor the tasks' own ports

The addresses in the flagfile become those of the tunnels.  Run it on each host, with the same flagfile.
Exit code 0: written; 2: a wrong argument, flagfile or key.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import ipaddress
import os
import pathlib
import re
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.config.flags import parse

FIRST_PORT = 21000
"""The first loopback port: below the ports that Linux gives to outgoing connections."""

KEY_FILES = ("ca.pem", "crl.pem", "cert.pem", "key.pem")
_IDLE_SECS = 10 * 86400
_PATH = re.compile(r"[A-Za-z0-9_./+@:-]+")


@dataclasses.dataclass(frozen=True)
class Tunnels:
    """The tunnels of a job.

    Attributes:
      tasks: each task's address, where other hosts reach its tunnel.
      ports: each task's port on the loopback, the same on every host.
    """

    tasks: Mapping[str, Address]
    ports: Mapping[str, int]

    @classmethod
    def of(cls, cluster: Cluster, first_port: int) -> Tunnels:
        """Makes the tunnels of a cluster; raises ConfigError if it cannot have any."""
        tasks = cluster.tasks()
        for name, address in tasks.items():
            if _is_loopback(address.host):
                raise ConfigError(f"{name} is at {address}, which no other host reaches: give the name of its host.")
        ports = {name: first_port + index for index, name in enumerate(tasks)}
        taken = {address.port for address in tasks.values()} & set(ports.values())
        last = first_port + len(ports) - 1
        if taken or last > 65535:
            problem = f"{min(taken)} is a port in the host lists" if taken else f"{last} is above 65535"
            raise ConfigError(f"first_port={first_port} is not possible: {problem}; use another --first_port.")
        return cls(tasks, ports)

    def here(self, host: str) -> list[str]:
        """Returns the tasks of a host; raises ConfigError if there are none."""
        found = [name for name, address in self.tasks.items() if address.host == host]
        if not found:
            hosts = ", ".join(sorted({address.host for address in self.tasks.values()}))
            raise ConfigError(f"host={host} has no task in the host lists: use one of {hosts}.")
        return found

    def peers(self, task: str) -> list[str]:
        """Returns the hosts that connect to a task: any host to a ps, hosts of ps to a worker."""
        own = self.tasks[task].host
        return sorted(
            {
                address.host
                for name, address in self.tasks.items()
                if address.host != own and (_is_ps(task) or _is_ps(name))
            }
        )

    def stunnel(self, host: str, keys: str, listen: str) -> str:
        """Returns stunnel's configuration for a host."""
        services = [self._server(task, keys, listen) for task in self.here(host) if self.peers(task)]
        services += [self._client(task, keys) for task in self.tasks if host in self.peers(task)]
        if not services:
            raise ConfigError(f"host={host} has all tasks of the job: they need no tunnel.")
        return "\n".join([_GLOBAL, *services])

    def _server(self, task: str, keys: str, listen: str) -> str:
        address = self.tasks[task]
        literal = address.host if _is_ip(address.host) else "0.0.0.0"
        lines = [f"accept = {listen or literal}:{address.port}", f"connect = 127.0.0.1:{self.ports[task]}"]
        lines += [_check_of(peer) for peer in self.peers(task)]
        return _service(f"serve-{task}", "no", keys, lines)

    def _client(self, task: str, keys: str) -> str:
        address = self.tasks[task]
        lines = [f"accept = 127.0.0.1:{self.ports[task]}", f"connect = {address.host}:{address.port}"]
        return _service(f"to-{task}", "yes", keys, ["delay = yes", *lines, _check_of(address.host)])

    def flags(self, cluster: Cluster) -> str:
        """Returns the flagfile with the tasks' own addresses."""
        numbered = sorted(cluster.workers) != list(range(len(cluster.workers)))
        lines = ["--ps_hosts=" + ",".join(self._own(f"ps:{index}") for index in range(len(cluster.ps)))]
        if cluster.chief_host:
            lines.append("--chief_hosts=" + self._own("chief:0"))
        workers = [(f"{i}=" if numbered else "") + self._own(f"worker:{i}") for i in sorted(cluster.workers)]
        if workers:
            lines.append("--worker_hosts=" + ",".join(workers))
        return "\n".join([f"# {_NOTE}", "# Give it after the job's own flagfile, on every host.", *lines, ""])

    def _own(self, task: str) -> str:
        return f"127.0.0.1:{self.ports[task]}"

    def nft(self, host: str) -> str:
        """Returns nftables rules for a host; raises ConfigError if a name has no address."""
        own = ", ".join(str(self.ports[task]) for task in self.here(host))
        rules = ['iifname "lo" accept', f"tcp dport {{ {own} }} drop"]
        for task in self.here(host):
            port = self.tasks[task].port
            for peer in self.peers(task):
                for address in _addresses_of(peer):
                    family = "ip6" if ":" in address else "ip"
                    rules.append(f'{family} saddr {address} tcp dport {port} accept comment "{peer} to {task}"')
            rules.append(f"tcp dport {port} drop")
        table = f"table inet ps_train_tls_{min(self.ports.values())}"
        body = "\n".join(f"    {rule}" for rule in rules)
        chain = f"  chain input {{\n    type filter hook input priority filter; policy accept;\n{body}\n  }}"
        return f"# {_NOTE}\n# Remove: nft delete {table}\n{table} {{}}\ndelete {table}\n{table} {{\n{chain}\n}}\n"


_NOTE = "Made by deploy/tls/tunnels.py; make it again when the host lists change."

_GLOBAL = f"""\
; {_NOTE}
foreground = yes
pid =
syslog = no
debug = notice
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
socket = l:SO_KEEPALIVE=1
socket = r:SO_KEEPALIVE=1
"""


def _service(name: str, client: str, keys: str, lines: Sequence[str]) -> str:
    """Returns a section; both sides show a certificate, and both check the other's."""
    common = [
        f"client = {client}",
        "sslVersion = TLSv1.3",
        "verifyChain = yes",
        "requireCert = yes",
        f"CAfile = {keys}/ca.pem",
        f"CRLfile = {keys}/crl.pem",
        f"cert = {keys}/cert.pem",
        f"key = {keys}/key.pem",
        "sessionResume = no",
        "libwrap = no",
        f"TIMEOUTidle = {_IDLE_SECS}",
    ]
    return "\n".join([f"[{name.replace(':', '-')}]", *lines, *common, ""])


def check_keys(directory: str, host: str) -> None:
    """Checks the files of a host from `ca.py issue`.

    Raises:
      ConfigError: a file is missing, others may read the key, the certificate is revoked or not of this host and CA, or
        the key is not the certificate's.
    """
    if not _PATH.fullmatch(directory) or not os.path.isabs(directory):
        raise ConfigError(f"keys={directory!r} is not valid: use an absolute path of letters, digits and /.-_+@:.")
    for name in KEY_FILES:
        path = os.path.join(directory, name)
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            text = f"{path} cannot be read ({error.strerror}): copy the files of `ca.py issue PKI {host}` there."
            raise ConfigError(text) from None
        if not stat.S_ISREG(mode):
            raise ConfigError(f"{path} is not a file: copy the files of `ca.py issue PKI {host}` there.")
        if name == "key.pem" and mode & 0o077:
            raise ConfigError(f"{path} has the mode {stat.S_IMODE(mode):04o}, so others may use the key: chmod 600 it.")
    _check_certificate(directory, host)


def _check_certificate(directory: str, host: str) -> None:
    """Checks that the files belong together: CA, list of revoked certificates, certificate and key."""
    ca, crl, certificate, key = (os.path.join(directory, name) for name in KEY_FILES)
    option = "-verify_ip" if _is_ip(host) else "-verify_hostname"
    for problem, checked in (
        (f"{crl} is not the list of revoked certificates of {ca}", ["crl", "-in", crl, "-CAfile", ca, "-noout"]),
        (
            f"{certificate} is not the certificate of {host} from {ca}",
            ["verify", "-CAfile", ca, "-CRLfile", crl, "-crl_check", option, host, certificate],
        ),
        (f"{key} is not a key", ["pkey", "-in", key, "-pubout"]),
    ):
        done = _openssl(checked)
        # `openssl crl` reports a wrong signature with exit code 0.
        if done.returncode or "verify failure" in done.stderr:
            found = re.search(r"error \d+ at \d+ depth lookup: (.*)", done.stderr)
            cause = found[1] if found else " ".join(done.stderr.split())[-200:]
            raise ConfigError(f"{problem} ({cause}): copy the files of `ca.py issue PKI {host}` there.")
    if done.stdout != _openssl(["x509", "-in", certificate, "-noout", "-pubkey"]).stdout:
        raise ConfigError(f"{key} is not the key of {certificate}: copy the files of `ca.py issue PKI {host}` there.")


def _openssl(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["openssl", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise ConfigError("the program openssl is not there: install it (Debian: apt-get install openssl).") from None


def _check_of(host: str) -> str:
    return f"{'checkIP' if _is_ip(host) else 'checkHost'} = {host}"


def _is_ps(task: str) -> bool:
    return task.startswith("ps:")


def _is_ip(host: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def _addresses_of(host: str) -> list[str]:
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the host {host} has no address ({getattr(error, 'strerror', None) or error}).") from None
    return sorted(found)


def _write(directory: pathlib.Path, files: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        new = directory / f".{name}.{os.getpid()}"
        new.write_text(text)
        new.replace(directory / name)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(f"{message}; see --help.")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="tunnels.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flagfile", action="append", required=True, help="the flagfile of the job; may be repeated")
    parser.add_argument("--host", required=True, help="this host, as the host lists name it")
    parser.add_argument("--keys", default="/etc/ps_train/tls", help="directory of this host's key (%(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tunnels"), help="directory of the files")
    parser.add_argument("--first_port", type=int, default=FIRST_PORT, help="the first loopback port (%(default)s)")
    parser.add_argument("--listen", default="", help="address on which the tunnels listen (for a name: all)")
    given = parser.parse_args(arguments)
    if not 1024 <= given.first_port <= 65535:
        raise ConfigError(f"first_port={given.first_port} is out of range: use 1024 to 65535.")
    if given.listen and not _is_ip(given.listen):
        raise ConfigError(f"listen={given.listen!r} is not an IP address: use one of this host.")
    return given


def _run(arguments: Sequence[str] | None) -> None:
    given = _parse(arguments)
    job = parse([f"--flagfile={path}" for path in given.flagfile], {}).job
    if job.cluster_file:
        raise ConfigError(f"cluster_file={job.cluster_file}: tunnels need the host lists in the flagfile.")
    cluster = Cluster.of(job)
    tunnels = Tunnels.of(cluster, given.first_port)
    tunnels.here(given.host)
    check_keys(given.keys, given.host)
    files = {
        "stunnel.conf": tunnels.stunnel(given.host, given.keys, given.listen),
        "tunnels.flags": tunnels.flags(cluster),
        "tunnels.nft": tunnels.nft(given.host),
    }
    _write(given.out, files)
    flagfiles = shlex.join(f"--flagfile={path}" for path in [*given.flagfile, given.out / "tunnels.flags"])
    print(shlex.join(["nft", "-f", str(given.out / "tunnels.nft")]))
    print(shlex.join(["stunnel", str(given.out / "stunnel.conf")]))
    for task in tunnels.here(given.host):
        name, _, index = task.partition(":")
        print(f"python -m ps_train {flagfiles} --job_name={name} --task_index={index}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the files of a host; returns the exit code."""
    try:
        _run(arguments)
    except (ConfigError, OSError) as error:
        print(f"tunnels.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
