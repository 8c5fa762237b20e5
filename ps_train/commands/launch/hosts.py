"""The tasks in `--hosts=a:ps,me@b=10.0.0.2:worker*2`.

    tasks = parse_hosts("a:ps,b:worker*2", first_port=2222)
    tasks[2]            # RemoteTask(name="worker:1", host="b", address="b:2223")

An entry is `[USER@]HOST[=ADDRESS]:ROLE[*COUNT]`.  `HOST` is a name for ssh; other tasks connect to `ADDRESS`, which is
`HOST` if it is not given.  An IPv6 address stands in brackets.
"""

from __future__ import annotations

import dataclasses
import re

from ps_train.base.errors import ConfigError
from ps_train.base.network_interfaces import is_loopback
from ps_train.cluster.addresses.cluster import Address, consecutive_ports

ROLES = ("ps", "chief", "worker")
_MOST_TASKS = 1000
_HOST = r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.][A-Za-z0-9_.-]*"
_ENTRY = re.compile(rf"((?:[A-Za-z0-9_.][A-Za-z0-9_.+-]*@)?)({_HOST})(?:=({_HOST}))?:([^:*@=]*)(?:\*(.*))?")


@dataclasses.dataclass(frozen=True)
class RemoteTask:
    """A task on another host.

    Attributes:
      name: name of the task, "worker:1".
      host: destination for ssh, "me@b".
      address: address of the task for the others, "10.0.0.2:2222"
    """

    name: str
    host: str
    address: str


def parse_hosts(text: str, first_port: int) -> list[RemoteTask]:
    """Returns all tasks, the ps first, then the chief, then the workers.

    Args:
      text: the value of --hosts.
      first_port: port of the first task of each host.

    Raises:
      ConfigError: the text is not a cluster.
    """
    if not text.strip():
        raise ConfigError("--hosts is empty: use for example --hosts=a:ps,b:worker*2.")
    places: list[tuple[str, str, str]] = []  # role, destination, address without port
    seen: set[tuple[str, str]] = set()
    for entry in text.split(","):
        user, host, address, role, count = _parse_entry(entry.strip())
        destination = user + host.strip("[]")
        if (destination, role) in seen:
            raise ConfigError(f"--hosts has {destination}:{role} twice: use {destination}:{role}*2 for two tasks.")
        seen.add((destination, role))
        places += [(role, destination, address)] * count
    places.sort(key=lambda place: ROLES.index(place[0]))  # stable: tasks of a role stay in the order of the hosts
    roles = [role for role, _, _ in places]
    _check(text, roles, [address for _, _, address in places])
    addresses = consecutive_ports([address for _, _, address in places], first_port)
    tasks = []
    for number, ((role, destination, _), address) in enumerate(zip(places, addresses, strict=True)):
        Address.parse(address, "--hosts")
        tasks.append(RemoteTask(f"{role}:{roles[:number].count(role)}", destination, address))
    return tasks


def _parse_entry(entry: str) -> tuple[str, str, str, str, int]:
    """Returns user with @, host, address, role and count of an entry."""
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise ConfigError(
            f"--hosts has the entry {entry[:80]!r}: use [USER@]HOST[=ADDRESS]:ROLE[*COUNT], for example b:worker*2."
        )
    user, host, address, role, count = found.groups()
    if role not in ROLES:
        raise ConfigError(f"--hosts has the role {role[:40]!r} in {entry[:80]!r}: use one of {', '.join(ROLES)}.")
    if count is not None and not (re.fullmatch("[1-9][0-9]{0,3}", count) and int(count) <= _MOST_TASKS):
        raise ConfigError(f"--hosts has the count {count[:40]!r} in {entry[:80]!r}: use 1 to {_MOST_TASKS}.")
    return user, host, address or host, role, int(count or 1)


def _check(text: str, roles: list[str], addresses: list[str]) -> None:
    if "worker" not in roles and "chief" not in roles:
        raise ConfigError(f"--hosts={text[:200]} has no worker: add one, for example b:worker*2.")
    if roles.count("chief") > 1:
        raise ConfigError(f"--hosts={text[:200]} has {roles.count('chief')} chiefs: use one.")
    local = {address for address in addresses if is_loopback(address)}
    if local and local != set(addresses):
        raise ConfigError(
            f"--hosts has {min(local)}, by which only its own machine can be reached, beside other hosts: give its "
            f"address, {min(local)}=ADDRESS."
        )
