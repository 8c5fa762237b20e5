"""Host lists from a DNS name: `--worker_hosts=dns:workers.example:2222*4`.

    job, task = resolve_dns(job, task)

The addresses are all A and AAAA records, IPv4 first, in ascending order: the same list for every task.  They are read
once, when the task starts, as soon as there are as many as expected.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import socket
import time
from typing import Any

from ps_train.base.errors import ConfigError, UnreachableError
from ps_train.cluster.addresses.ports import is_local
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described

_ENTRY = re.compile(r"dns:([A-Za-z0-9_.-]{1,253}):([0-9]{1,5})(?:\*([1-9][0-9]{0,4}))?")
_POLL_SECS = 0.5


def resolve_dns(job: Job, task: Task) -> tuple[Job, Task]:
    """Returns the job with addresses in the place of DNS names, and the task with its index.

    Without `task_index` a ps or worker has the index of this machine's address in its list.

    Raises:
      ConfigError: an entry is malformed, or the task's index cannot be told.
      UnreachableError: the name has not the expected number of addresses within `startup_timeout_secs`.
    """
    deadline = time.monotonic() + job.startup_timeout_secs
    named = [name for name in HOST_LISTS if any(host.startswith("dns:") for host in getattr(job, name))]
    changes: dict[str, Any] = {name: _addresses(job, name, deadline) for name in named}
    own = changes.get(f"{task.job_name}_hosts", ())
    if own and task.task_index is None:
        here = [index for index, address in enumerate(own) if is_local(address.rpartition(":")[0].strip("[]"))]
        if len(here) != 1:
            raise ConfigError(
                f"task_index is not given, and {len(here)} of the addresses {', '.join(own)} are of this machine: give "
                "--task_index."
            )
        task = dataclasses.replace(task, task_index=here[0])
    return (dataclasses.replace(job, **changes) if changes else job), task


def _addresses(job: Job, name: str, deadline: float) -> tuple[str, ...]:
    hosts = getattr(job, name)
    found = _ENTRY.fullmatch(hosts[0])
    if len(hosts) > 1 or found is None:
        raise ConfigError(
            f"{described(job, name)} is not valid: use one name for the whole list, dns:NAME:PORT or dns:NAME:PORT*N."
        )
    counts = {"ps_hosts": job.num_ps, "worker_hosts": job.num_workers, "chief_hosts": 1}
    expected = int(found[3]) if found[3] else counts[name]
    while True:
        addresses, problem = _lookup(found[1])
        if addresses and len(addresses) == (expected or len(addresses)):
            return tuple(f"[{host}]:{found[2]}" if ":" in host else f"{host}:{found[2]}" for host in addresses)
        if time.monotonic() >= deadline:
            expectation = f", and {expected} are expected" if expected else ""
            raise UnreachableError(
                f"gave up after {job.startup_timeout_secs:g}s: {described(job, name)}: {found[1]} has "
                f"{len(addresses)} addresses{problem}{expectation}."
            )
        time.sleep(_POLL_SECS)


def _lookup(name: str) -> tuple[list[str], str]:
    """Returns the addresses of a name, sorted, and the problem in words."""
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return [], f" ({getattr(error, 'strerror', None) or error})"
    found = {ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries}
    return [str(address) for address in sorted(found, key=lambda one: (one.version, one.packed))], ""
