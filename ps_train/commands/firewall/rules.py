"""The rules of a job's firewall on one host, as text for nft (nftables).

    rules = Rules("ps_train_1a2b", ports, members)
    rules.text()            # for `nft -f -`: replaces the table of this name in one step
    removal(rules.table)    # for `nft -f -`: removes it, if it is there

The rules look at each packet that arrives for a port of the job on an address of this host.  They come before address
translation, so that published ports of containers count too.  They keep no state: a connection that was open before
the rules ends with them.  A verdict `accept` holds only within this table; other tables may still drop the packet.
No input or output.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence

from ps_train.cluster.addresses.cluster import Address
from ps_train.config.job import Job, Task

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PREFIX = "ps_train_"
_PRIORITY = -150
"""After the kernel's defragmentation (-400) and before destination NAT (-100), which hides the port."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """The rules for the ports of a job on one host.

    Attributes:
      table: name of the table of the family inet, which has nothing else.
      ports: the ports that only members may reach.
      members: networks of the job's hosts.
      pages: those of the ports that viewers may reach too: of the status page, and of each task's health.
      viewers: networks of the viewers.
    """

    table: str
    ports: frozenset[int]
    members: frozenset[Network]
    pages: frozenset[int] = frozenset()
    viewers: frozenset[Network] = frozenset()

    def text(self) -> str:
        """Returns the rules; the first two lines remove an older table, in the same transaction."""
        lines = [removal(self.table).rstrip(), f"table inet {self.table} {{"]
        lines += _set("ports", "inet_service", sorted(self.ports))
        lines += [*_networks("members", self.members), *_networks("viewers", self.viewers)]
        lines += ["\tchain job {", '\t\tiifname "lo" accept', *_accept("members", "")]
        if self.pages and self.viewers:
            lines += _accept("viewers", f"tcp dport {{ {', '.join(map(str, sorted(self.pages)))} }} ")
        lines += ["\t\tcounter drop", "\t}", "\tchain arriving {"]
        lines += [f"\t\ttype filter hook prerouting priority {_PRIORITY}; policy accept;"]
        lines += ["\t\tfib daddr type local tcp dport @ports jump job", "\t}", "}"]
        return "\n".join(lines) + "\n"


def removal(table: str) -> str:
    """Returns the text that removes a table; `add` first, because `delete` fails where there is none."""
    return f"add table inet {table}\ndelete table inet {table}\n"


def table_name(job: Job, task: Task | None) -> str:
    """Returns the name of the table of a job, or of one task of it; the same each time, for a later removal."""
    file = os.path.abspath(job.cluster_file) if job.cluster_file else ""
    hosts = [file] if file else [*job.ps_hosts, "", *job.worker_hosts, "", *job.chief_hosts]
    text = "\n".join([str(task or ""), *hosts])
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:12]


def own_tasks(tasks: Mapping[str, Address], resolved: Mapping[str, Iterable[str]], local: Iterable[str]) -> list[str]:
    """Returns the tasks that are on this host.

    Args:
      tasks: the address of each task.
      resolved: the IP addresses of each host.
      local: the IP addresses of this host.
    """
    here = set(local)
    return [
        name
        for name, address in tasks.items()
        if any(text in here or ipaddress.ip_address(text).is_loopback for text in resolved.get(address.host, ()))
    ]


def networks_of(addresses: Iterable[str]) -> frozenset[Network]:
    """Returns IP addresses as networks of one address each; loopback is left out, since it is always admitted."""
    found = {ipaddress.ip_network(text.partition("%")[0]) for text in addresses}
    return frozenset(network for network in found if not network.is_loopback)


def _networks(name: str, networks: Iterable[Network]) -> list[str]:
    """Returns the sets of both families."""
    lines = []
    for version, kind in ((4, "ipv4_addr"), (6, "ipv6_addr")):
        found = ipaddress.collapse_addresses([one for one in networks if one.version == version])  # type: ignore[type-var]
        texts = [str(one.network_address if one.num_addresses == 1 else one) for one in found]
        lines += _set(f"{name}{version}", kind, texts, interval=True)
    return lines


def _set(name: str, kind: str, elements: Iterable[object], interval: bool = False) -> list[str]:
    texts = [str(element) for element in elements]
    lines = [f"\tset {name} {{", f"\t\ttype {kind}"]
    lines += ["\t\tflags interval"] if interval else []
    lines += [f"\t\telements = {{ {', '.join(texts)} }}"] if texts else []
    return [*lines, "\t}"]


def _accept(name: str, condition: str) -> Sequence[str]:
    return (f"\t\t{condition}ip saddr @{name}4 accept", f"\t\t{condition}ip6 saddr @{name}6 accept")
