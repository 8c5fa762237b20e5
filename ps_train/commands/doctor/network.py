"""Checks of names, addresses and ports from this machine, without TensorFlow; every wait has a deadline.

resolve("host-a", 5.0)                          # (["10.0.0.1"], "")
probe(Address("host-a", 2222), 3.0)             # Answer.GRPC, "…"
own_tasks(cluster, addresses)                   # ["ps:0"]: the tasks of the lists that are on this machine
"""

from __future__ import annotations

import contextlib
import enum
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.cluster.addresses.ports import check_port
from ps_train.commands.doctor.findings import FAIL, OK, WARN, Finding
from ps_train.config.job import Task

T = TypeVar("T")

RESOLVE_SECS, CONNECT_SECS, ANSWER_SECS = 5.0, 3.0, 3.0

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""The first bytes of an HTTP/2 client (RFC 9113) and an empty SETTINGS frame, which every gRPC server answers."""

_SETTINGS, _FRAME_HEADER = 4, 9


class Answer(enum.Enum):
    """Kinds of answers at an address.

    GRPC: a gRPC server.  OTHER: another program.  SILENT: it accepts and says nothing.  REFUSED: the machine answers,
    no process listens.  UNREACHABLE: nothing answers, or there is no way there.  UNRESOLVED: the name is unknown.
    """

    GRPC = "gRPC"
    OTHER = "another program"
    SILENT = "silent"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    UNRESOLVED = "unresolved"


def in_parallel(works: Mapping[str, Callable[[], T]], within_secs: float) -> dict[str, T]:
    """Returns the results of functions that run in threads; one that is not done in time has no result."""
    found: dict[str, T] = {}

    def run(name: str, work: Callable[[], T]) -> None:
        result = work()
        found[name] = result

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in works.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + within_secs
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def resolve(host: str) -> tuple[list[str], str]:
    """Returns the IP addresses of a name, and the error or ""."""
    try:
        entries = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return [], str(getattr(error, "strerror", None) or error)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries)), ""


def resolve_all(hosts: Sequence[str]) -> dict[str, tuple[list[str], str]]:
    """Returns the addresses and the error of each host, within RESOLVE_SECS."""
    works = {host: (lambda host=host: resolve(host)) for host in dict.fromkeys(hosts)}
    found = in_parallel(works, RESOLVE_SECS)
    return {host: found.get(host, ([], f"no answer within {RESOLVE_SECS:g}s")) for host in works}


def names_findings(tasks: Mapping[str, Address], resolved: Mapping[str, tuple[list[str], str]]) -> list[Finding]:
    """Returns one finding for all names that resolve, and one for each that does not."""
    findings = []
    for host, (_, error) in resolved.items():
        if error:
            names = ", ".join(name for name, address in tasks.items() if address.host == host)
            text = f"the name {host!r} of {names} is not resolved ({error})"
            findings.append(Finding(FAIL, "names", text, "correct it in the host lists, in DNS or in /etc/hosts"))
    good = [f"{host} -> {found[0]}" if host != found[0] else host for host, (found, error) in resolved.items() if found]
    if good:
        more = f" and {len(good) - 4} more" if len(good) > 4 else ""
        findings.append(Finding(OK, "names", f"resolved: {', '.join(good[:4])}{more}"))
    return findings


def is_here(addresses: Sequence[str]) -> bool:
    """Returns True if this machine has one of some IP addresses."""
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as socket_:
            socket_.bind((address, 0))
            return True
    return False


def own_tasks(cluster: Cluster, resolved: Mapping[str, tuple[list[str], str]]) -> list[str]:
    """Returns the tasks of the host lists that are on this machine."""
    here = {host: host == socket.gethostname() or is_here(found) for host, (found, _) in resolved.items()}
    return [name for name, address in cluster.tasks().items() if here.get(address.host)]


def task_finding(cluster: Cluster, own: Sequence[str], task: Task | None) -> Finding:
    """Returns the finding that says which task this host is, or would be.

    Args:
      cluster: the host lists.
      own: the tasks whose addresses are of this machine.
      task: the task that the flags name; None if they name none.
    """
    host = socket.gethostname()
    if task is None:
        if own:
            return Finding(OK, "task", f"this host ({host}) would be {', '.join(own)}, by its addresses")
        known = ", ".join(f"{name} {address}" for name, address in list(cluster.tasks().items())[:4])
        text = f"this host ({host}) is none of the tasks of the host lists ({known})"
        return Finding(WARN, "task", text, "run the doctor on their hosts too")
    address = cluster.address(task)
    if str(task) in own:
        return Finding(OK, "task", f"this host ({host}) is {task}, {address}")
    text = f"this host ({host}) is {task} by its flags, but {address.host} is not an address of this machine"
    return Finding(WARN, "task", text, "right only behind a translated address; else give each host its own task_index")


def port_finding(address: Address, task: Task) -> Finding:
    """Returns the finding about a port of this machine: free, or held by some process."""
    try:
        check_port(address, task)
    except (ConfigError, OSError) as error:
        return Finding(FAIL, "port", str(error).rstrip("."))
    return Finding(OK, "port", f"{address.port} of {task} is free")


def probe(address: Address) -> tuple[Answer, str]:
    """Returns the kind of answer at an address and the details in words, within the deadlines of this module."""
    try:
        connection = socket.create_connection((address.host, address.port), timeout=CONNECT_SECS)
    except socket.gaierror as error:
        return Answer.UNRESOLVED, f"the name {address.host!r} is not resolved ({error.strerror})"
    except ConnectionRefusedError:
        return Answer.REFUSED, "connection refused: the machine answers, but no process listens there"
    except TimeoutError:
        return Answer.UNREACHABLE, f"no answer within {CONNECT_SECS:g}s: a firewall drops it, or the machine is off"
    except OSError as error:
        return Answer.UNREACHABLE, f"cannot connect ({error.strerror or error})"
    with connection:
        return _greet(connection)


def _greet(connection: socket.socket) -> tuple[Answer, str]:
    """Sends the first bytes of gRPC; returns the kind of answer and the details."""
    received, deadline = b"", time.monotonic() + ANSWER_SECS
    try:
        connection.sendall(_PREFACE)
        while len(received) < _FRAME_HEADER and (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            more = connection.recv(256)
            if not more:
                break
            received += more
    except TimeoutError:
        pass
    except OSError as error:
        return Answer.OTHER, f"a process accepts there and closes ({error.strerror}); it is not a TensorFlow server"
    if len(received) >= _FRAME_HEADER and received[3] == _SETTINGS:
        return Answer.GRPC, "a gRPC server answers"
    if received:
        first = received.splitlines()[0][:40].decode("ascii", "replace")
        is_http = received.startswith(b"HTTP/") or b"<html" in received.lower()
        kind = "an HTTP server" if is_http else "another program"
        return Answer.OTHER, f"{kind} answers there ({first!r}), not a TensorFlow server"
    if time.monotonic() < deadline:
        return Answer.OTHER, "a process accepts there and closes; it is not a TensorFlow server"
    return (
        Answer.SILENT,
        f"a process accepts there but says nothing within {ANSWER_SECS:g}s; it is stopped or not ps_train",
    )


def reach_finding(name: str, address: Address, answer: Answer, text: str) -> Finding:
    """Returns the finding about a ps's address, as seen from a host without a task."""
    subject = f"{name} ({address})"
    if answer is Answer.GRPC:
        return Finding(OK, "reach", f"{subject}: {text}")
    if answer is Answer.REFUSED:
        return Finding(WARN, "reach", f"{subject}: {text}", "start the doctor there too to measure it")
    return Finding(FAIL, "reach", f"{subject}: {text}", _ADVICE[answer])


_ADVICE = {
    Answer.OTHER: "stop that program or use another port",
    Answer.SILENT: "stop that process or use another port",
    Answer.REFUSED: "start the doctor or the ps there at the same time, with the same host lists",
    Answer.UNREACHABLE: "open the port between these machines, and see that the machine is up",
    Answer.UNRESOLVED: "correct the name in the host lists, in DNS or in /etc/hosts",
    Answer.GRPC: "",
}


def advice_for(answer: Answer) -> str:
    """Returns what to do about an answer."""
    return _ADVICE[answer]
