"""Counts the rendezvous that TensorFlow keeps for ever in a process, and measures their size.

    kept_in(pid)                                 # None where the process or the symbol is not there
    python -m tests.trials kept_rendezvous       # the size, on stock TensorFlow

A call of `session.run` has a rendezvous on each task.  When the call ends, the master sends CleanupGraph.  If a thread
of the task still holds the rendezvous then, TensorFlow aborts it and keeps one reference to it on purpose
(`LocalRendezvous::aborted_rendezs_`, local_rendezvous.h).  The list is read from outside, so nothing in the process
changes.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib.util
import os
import pathlib
import struct
from collections.abc import Callable
from typing import Any

from tests.support.machine.ports import free_ports

_LIBRARY = "libtensorflow_framework.so.2"
_SYMBOL = "_ZN10tensorflow15LocalRendezvous16aborted_rendezs_E"
"""A pointer to a std::vector of pointers, seen in TensorFlow 2.21."""

_ROUNDS, _CALLS = 4, 20_000


def kept_in(pid: int) -> int | None:
    """Returns the number of rendezvous that the process keeps; None where it cannot be told."""
    offset, base = _offset(), _base_of(pid)
    if offset is None or base is None:
        return None
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            (vector,) = struct.unpack("<Q", _read(memory, base + offset, 8))
            begin, end, _ = struct.unpack("<3Q", _read(memory, vector, 24)) if vector else (0, 0, 0)
    except (OSError, struct.error):
        return None
    return (end - begin) // 8


def _read(memory: Any, address: int, size: int) -> bytes:
    memory.seek(address)
    return bytes(memory.read(size))


@functools.cache
def _offset() -> int | None:
    """Returns the symbol's distance from the beginning of the library in memory."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        return None
    try:
        library = ctypes.CDLL(str(pathlib.Path(found.origin).with_name(_LIBRARY)))
        address = ctypes.addressof(ctypes.c_uint64.in_dll(library, _SYMBOL))
    except (OSError, ValueError):
        return None
    base = _base_of(os.getpid())
    return None if base is None else address - base


def _base_of(pid: int) -> int | None:
    """Returns the address of the library's first byte in the memory of a process."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return None
    starts = [int(line.partition("-")[0], 16) for line in lines if line.endswith(f"/{_LIBRARY}")]
    return min(starts, default=None)


_HEAP_FIELDS = [
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
]


class _Heap(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in _HEAP_FIELDS]


def _heap_bytes() -> int:
    """Returns the bytes in use on the heap of this process."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Heap
    heap = mallinfo2()
    return int(heap.uordblks + heap.hblkhd)


def _tolerant(call: Callable[[], object]) -> bool:
    """Returns False where TensorFlow has refused the call because of its id (docs/decisions/0019-refused-calls.md)."""
    import tensorflow as tf

    try:
        call()
    except tf.errors.AbortedError:
        return False
    return True


def main(arguments: list[str]) -> int:
    """Runs a step of one variable on a stock ps and worker, in this process, and prints what stays for each call."""
    argparse.ArgumentParser(prog="python -m tests.trials kept_rendezvous", description=main.__doc__).parse_args(
        arguments
    )
    import tensorflow as tf

    v1 = tf.compat.v1
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = tf.train.ClusterSpec({"ps": [ps], "worker": [worker]})
    servers = [v1.train.Server(spec, job, 0) for job in ("ps", "worker")]
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            variable = v1.get_variable("v", [4])
        with tf.device("/job:worker/task:0"):
            change = 0.1 * tf.identity(variable)
        with tf.device("/job:ps/task:0"):
            step = variable.assign_sub(change).op
        session = v1.Session(servers[1].target, graph=graph)
        session.run(variable.initializer)
        call = session.make_callable(step)
    print(f"TensorFlow {tf.__version__}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    for _ in range(_CALLS):
        _tolerant(call)
    for _ in range(_ROUNDS):
        kept, heap = kept_in(os.getpid()) or 0, _heap_bytes()
        refused = sum(not _tolerant(call) for _ in range(_CALLS))
        more, grown = (kept_in(os.getpid()) or 0) - kept, _heap_bytes() - heap
        each = f"{grown / more:.0f} bytes for each" if more else "none to divide by"
        print(f"{_CALLS} calls, {refused} refused: {more} rendezvous kept, heap +{grown} bytes: {each}", flush=True)
    return 0
