"""Process identity across machines: a pid means something only within its host, boot and PID namespace.

    status = new_task_status("worker:1")      # has host, host_identity(), pid and start_time(pid)
    process_exited(status)                    # True only if that process has certainly ended

Standard library only.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol

_BOOT = "/proc/sys/kernel/random/boot_id"


class ProcessRecord(Protocol):
    """The fields of a record that name its process; `records.TaskStatus` has them."""

    @property
    def host(self) -> str:
        """Name of the machine."""

    @property
    def machine(self) -> str:
        """Boot and PID namespace of the machine: `host_identity()`."""

    @property
    def pid(self) -> int:
        """The process's id in its namespace."""

    @property
    def started(self) -> str:
        """Start time of the process: `start_time(pid)`."""


def host_identity() -> str:
    """Returns this boot and PID namespace as one text; "" where the system does not show them."""
    try:
        with open(_BOOT) as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def start_time(pid: int) -> str:
    """Returns when a process of this PID namespace started, in the kernel's ticks; "" where that is not known."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return ""  # /proc shows another namespace, in which the pid is another process
        return _stat(pid)[19]
    except (OSError, IndexError):
        return ""


def _stat(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat from the process's state on."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def _is_zombie(pid: int) -> bool:
    """Returns True for a process that has ended and whose parent has not asked for its exit code yet."""
    try:
        return os.readlink("/proc/self") == str(os.getpid()) and _stat(pid)[0] == "Z"
    except (OSError, IndexError):
        return False


def process_exited(process: ProcessRecord) -> bool:
    """Returns whether a process has certainly ended; False where its pid means nothing here."""
    if process.host != socket.gethostname() or not process.machine or process.machine != host_identity():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    if _is_zombie(process.pid):
        return True
    started = start_time(process.pid)
    return bool(started and process.started and started != process.started)
