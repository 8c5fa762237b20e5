"""Resources that this process uses: CPU time, memory, and bytes over its TCP connections.

    stats = ProcessStats()
    stats.read()          # {"cpu_secs": 12.4, "rss_bytes": 312000000, "sent_bytes": 9.1e6, "received_bytes": 4.2e6}
    memory_limit()        # bytes that the process may use

Linux and the standard library only.  Values that the system does not show are left out.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import struct
import time

from ps_train.base.tcp_connections import tcp_connections

INSTRUCTIONS = ("amx_bf16", "amx_fp16", "avx512_bf16", "avx512_fp16")
"""Names in /proc/cpuinfo: matrix and vector instructions for bfloat16 and float16."""

_NEEDED = {"bfloat16": ("amx_bf16", "avx512_bf16"), "float16": ("amx_fp16", "avx512_fp16")}
_CPUINFO = pathlib.Path("/proc/cpuinfo")


def instructions(cpuinfo: pathlib.Path = _CPUINFO) -> list[str]:
    """Returns those of INSTRUCTIONS that the first core has; none if the file cannot be read."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return [name for name in INSTRUCTIONS if name in flags]


def instruction_set_line(dtype: str, cpuinfo: pathlib.Path = _CPUINFO) -> str:
    """Returns a line about the CPU's instructions for computing in `dtype`, "bfloat16" or "float16"."""
    found = instructions(cpuinfo)
    missing = ", ".join(name for name in INSTRUCTIONS if name not in found)
    has = f"has {', '.join(found)}" + (f", lacks {missing}" if missing else "") if found else f"has none of {missing}"
    line = f"compute_dtype={dtype}: this CPU {has}"
    if any(name in found for name in _NEEDED[dtype]):
        return line
    return f"{line}; without {' or '.join(_NEEDED[dtype])} it may be slower than float32"


_TCP_INFO_BYTES_ACKED = 120
"""Offset of tcpi_bytes_acked in struct tcp_info (linux/tcp.h); tcpi_bytes_received follows."""

_PAGE = os.sysconf("SC_PAGESIZE")
_CORES = "/sys/devices/system/cpu"
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class ProcessStats:
    """Reader of the resources of this process.

    Bytes of connections are counted while they are open: what a connection carries between the last reading and its
    end is missing.
    """

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, int]] = {}
        self._closed = (0, 0)

    def read(self) -> dict[str, float]:
        """Returns cpu_secs, rss_bytes, sent_bytes and received_bytes, all since the process began."""
        sent, received = self._tcp_bytes()
        found = {"cpu_secs": time.process_time(), "sent_bytes": float(sent), "received_bytes": float(received)}
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm") as file:
            found["rss_bytes"] = float(int(file.read().split()[1]) * _PAGE)
        return found

    def _tcp_bytes(self) -> tuple[int, int]:
        found = _connections()
        for inode in self._open.keys() - found.keys():
            before = self._open[inode]
            self._closed = self._closed[0] + before[0], self._closed[1] + before[1]
        self._open = found
        every = [self._closed, *found.values()]
        return sum(sent for sent, _ in every), sum(received for _, received in every)


def _connections() -> dict[int, tuple[int, int]]:
    """Returns bytes sent and received of each open TCP connection, by the number of its socket."""
    found: dict[int, tuple[int, int]] = {}
    for connection in tcp_connections():
        with contextlib.suppress(OSError, struct.error):
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            found[os.fstat(connection.fileno()).st_ino] = struct.unpack_from("=QQ", info, _TCP_INFO_BYTES_ACKED)
    return found


def memory_limit() -> float | None:
    """Returns the bytes of memory that this process may use, of its cgroup or its machine; None where not known."""
    limits = [float(os.sysconf("SC_PHYS_PAGES") * _PAGE)]
    for path in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            limits.append(float(int(file.read())))
    return min((limit for limit in limits if limit > 0), default=None)


def available_cores() -> int:
    """Returns the number of cores on which this process may run."""
    return len(os.sched_getaffinity(0))


def neighbouring_cores() -> list[int]:
    """Returns the cores on which this process may run, those beside each other that share a processor or its parts."""
    return sorted(os.sched_getaffinity(0), key=lambda core: (*_place_of(core), core))


def _place_of(core: int) -> tuple[int, int]:
    """Returns the processor of a logical core, and which of its cores it is; equal places are threads of one core."""
    try:
        topology = pathlib.Path(_CORES, f"cpu{core}", "topology")
        return int((topology / "physical_package_id").read_text()), int((topology / "core_id").read_text())
    except (OSError, ValueError):
        return 0, 0
