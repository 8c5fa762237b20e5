"""The addresses of this machine's network interfaces, and the refusal to serve at a public one.

    local_addresses()                               # [InterfaceAddress("eth0", IPv4Address("10.0.0.1")), ...]
    refuse_public_ports("worker:0", allowed=False)  # ConfigError where one of them is public

TensorFlow's servers listen on every interface, so each address of the machine counts, not the one in the host lists.
An address that other machines translate to this one (NAT, a published port of a container) cannot be seen from here.
Standard library only.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
import socket
import struct
from collections.abc import Iterator, Sequence

from ps_train.base.errors import ConfigError

ALLOW_VARIABLE = "PS_TRAIN_ALLOW_PUBLIC_PORTS"
"""Environment variable that stands for --allow_public_ports in programs without this flag, such as raw scripts."""

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC = [
    ipaddress.ip_network(text)
    for text in (
        # IPv4 (IANA special-purpose registry): this network, private, carrier's NAT, loopback, link-local, protocols,
        # documentation, benchmarks, multicast, reserved.
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
        "240.0.0.0/4",
        # IPv6: unspecified, loopback, translation of one site, discard, benchmarks, ORCHID, documentation (2), segment
        # routing, unique local, link-local, the former site-local, multicast.
        "::/128", "::1/128", "64:ff9b:1::/48", "100::/63", "2001:2::/48", "2001:10::/28", "2001:db8::/32",
        "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
]  # fmt: skip
_IPV4_INSIDE = {"::ffff:0:0/96": 0, "64:ff9b::/96": 0, "2002::/16": 80}
"""IPv6 networks whose addresses stand for an IPv4 address, and the bits after it: mapped, NAT64 and 6to4."""

_EMBEDDING = [(ipaddress.IPv6Network(text), shift) for text, shift in _IPV4_INSIDE.items()]

# linux/netlink.h, linux/rtnetlink.h, linux/if_addr.h, linux/if.h
_GETLINK, _NEWLINK, _GETADDR, _NEWADDR, _ERROR, _DONE, _REQUEST_DUMP = 18, 16, 22, 20, 2, 3, 0x301
_IFA_ADDRESS, _IFA_LOCAL, _IFLA_NAME, _IFF_UP, _DAD_FAILED = 1, 2, 3, 1, 0x08
_NETLINK_SECS = 5.0
_MOST_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class InterfaceAddress:
    """An address of an interface that is up.

    Attributes:
      interface: name of the interface; "" where it is not known.
    """

    interface: str
    address: IpAddress

    def __str__(self) -> str:
        return f"{self.address} ({self.interface})" if self.interface else str(self.address)


def is_public(address: IpAddress) -> bool:
    """Returns True for an address that can be reached from the internet, if no firewall is in the way.

    Python's `is_global` differs between its versions, so the networks are listed here.
    """
    if isinstance(address, ipaddress.IPv6Address):
        for network, shift in _EMBEDDING:
            if address in network:
                return is_public(ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF))
    return not any(address in network for network in _NOT_PUBLIC if network.version == address.version)


def is_loopback(host: str) -> bool:
    """Returns True for an address, or the name, of this machine alone.

    Args:
      host: an IP address, also one in brackets, or a name in any case, also one that ends with the root's dot.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().removesuffix(".") == "localhost"


def local_addresses(root: str = "/") -> list[InterfaceAddress]:
    """Returns all addresses of the interfaces that are up, in both families; `root` holds `proc`.

    Raises:
      OSError: the system does not tell them.
    """
    try:
        found = _from_netlink()
    except OSError:  # a sandbox without netlink, such as systemd's RestrictAddressFamilies
        found = _from_proc(root)
    return list(dict.fromkeys(found))


def public_addresses() -> list[InterfaceAddress]:
    """Returns the public ones among the addresses of this machine; raises OSError as `local_addresses` does."""
    return [one for one in local_addresses() if is_public(one.address)]


def listed(addresses: Sequence[InterfaceAddress]) -> str:
    """Returns addresses as a short text."""
    more = f" and {len(addresses) - _MOST_SHOWN} more" if len(addresses) > _MOST_SHOWN else ""
    return ", ".join(str(one) for one in addresses[:_MOST_SHOWN]) + more


def are_public_ports_allowed(flag: bool) -> bool:
    """Returns the value of --allow_public_ports, or that of the environment variable that stands for it."""
    return flag or os.environ.get(ALLOW_VARIABLE, "") == "1"


def refuse_public_ports(server: str, allowed: bool = False) -> list[InterfaceAddress]:
    """Refuses to serve on a machine with a public address; returns the public addresses if they are allowed.

    Args:
      server: the process that would serve, for the error: "worker:0".
      allowed: the value of --allow_public_ports.

    Raises:
      ConfigError: the machine has a public address and this is not allowed.
    """
    is_allowed = are_public_ports_allowed(allowed)
    try:
        found = public_addresses()
    except OSError as error:
        if is_allowed:
            return []
        raise ConfigError(
            f"{server} does not start: the addresses of this machine cannot be read ({error}), and at a public one any "
            "client could run code.  Use --allow_public_ports if none is public or a firewall is there."
        ) from None
    if found and not is_allowed:
        raise ConfigError(
            f"{server} does not start: TensorFlow would serve at the public address {listed(found)}, where any client "
            "could run code.  Use a private network, or a firewall (python -m ps_train firewall) and then "
            "--allow_public_ports."
        )
    return found


def _from_netlink() -> list[InterfaceAddress]:
    """Asks the kernel, as `ip address` does."""
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError("this system has no netlink")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.settimeout(_NETLINK_SECS)
        kernel.bind((0, 0))
        up = {}
        for body in _dump(kernel, _GETLINK, _NEWLINK):
            index, flags = struct.unpack_from("=4xiI", body)
            if flags & _IFF_UP:
                name = _attributes(body[16:]).get(_IFLA_NAME, b"")
                up[index] = name.rstrip(b"\0").decode(errors="replace")
        found = []
        for body in _dump(kernel, _GETADDR, _NEWADDR):
            family, _, flags, _, index = struct.unpack_from("=BBBBI", body)
            attributes = _attributes(body[8:])
            packed = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)  # the latter is the peer of a tunnel
            if index in up and packed and family in (socket.AF_INET, socket.AF_INET6) and not flags & _DAD_FAILED:
                found.append(InterfaceAddress(up[index], ipaddress.ip_address(packed)))
        return found


def _dump(kernel: socket.socket, request: int, answer: int) -> Iterator[bytes]:
    """Yields the bodies of all messages of a kind."""
    kernel.sendall(struct.pack("=IHHIIB3x", 20, request, _REQUEST_DUMP, request, 0, socket.AF_UNSPEC))
    while True:
        data = kernel.recv(1 << 17)
        while len(data) >= 16:
            length, kind, _, _, _ = struct.unpack_from("=IHHII", data)
            if kind == _DONE:
                return
            if kind == _ERROR or length < 16:
                raise OSError("netlink refuses the request")
            if kind == answer:
                yield data[16:length]
            data = data[(length + 3) & ~3 :]


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def _from_proc(root: str) -> list[InterfaceAddress]:
    """Reads the tables in /proc; IPv4 has no names of interfaces there."""
    with open(f"{root}/proc/net/fib_trie") as file:
        found = [
            InterfaceAddress("", ipaddress.IPv4Address(text))
            for text in re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", file.read())
        ]
    if os.path.exists(f"{root}/proc/net/if_inet6"):  # IPv6 may be off
        with open(f"{root}/proc/net/if_inet6") as file:
            rows = [line.split() for line in file]
        found += [
            InterfaceAddress(row[5], ipaddress.IPv6Address(bytes.fromhex(row[0])))
            for row in rows
            if not int(row[4], 16) & _DAD_FAILED
        ]
    return found
