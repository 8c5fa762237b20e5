"""What this machine can do, measured in the same session as the contenders; and the bound that follows.

    found = calibrate()                     # Calibration(memory=…, socket=…, run=…, small_tensor=…, byte=…)
    bound(found, compute_secs=0.0013, parameters=242_762)

All are CPU seconds of both sides together, since CPU is what is scarce where all processes share one machine.
"""

from __future__ import annotations

import dataclasses
import pathlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable

import numpy as np

from benchmarks.contenders import Setting, task_programs
from benchmarks.peers.sizes import LARGE_BYTES, SMALL_TENSORS
from benchmarks.processes import Line, Processes

_BLOCK = 64 << 20
_TIMES = 8


@dataclasses.dataclass(frozen=True)
class Calibration:
    """CPU seconds.

    Attributes:
      memory: a byte copied from memory to memory.
      socket: a byte through a loopback socket, sent and received.
      run: an empty `session.run` that involves a ps.
      small_tensor: one more small tensor that crosses from ps to worker in a run.
      byte: a byte of a tensor of 1 MiB that crosses (what TensorFlow makes of `socket` and `memory`).
    """

    memory: float
    socket: float
    run: float
    small_tensor: float
    byte: float


def calibrate() -> Calibration:
    phases = _tensorflow_phases()
    small_tensor = (phases["many"] - phases["one"]) / SMALL_TENSORS
    return Calibration(
        memory=memory_secs_per_byte(),
        socket=socket_secs_per_byte(),
        run=phases["run"],
        small_tensor=small_tensor,
        byte=max(0.0, phases["large"] - phases["one"]) / LARGE_BYTES,
    )


def overhead_secs(found: Calibration, parameters: int) -> float:
    """The least that one asynchronous dense step through one ps adds to its compute: one run, one tensor each way, and
    every fp32 parameter through a socket and copied once, twice (pull and push)."""
    return found.run + 2 * found.small_tensor + 8 * parameters * (found.socket + found.memory)


def bound(found: Calibration, compute_secs: float, parameters: int) -> float:
    """E_max: the share of a single process's rate that a ps job on the same cores can reach."""
    return compute_secs / (compute_secs + overhead_secs(found, parameters))


def memory_secs_per_byte() -> float:
    source, target = np.ones(_BLOCK, np.uint8), np.ones(_BLOCK, np.uint8)
    began = time.process_time()
    for _ in range(_TIMES):
        np.copyto(target, source)
    return (time.process_time() - began) / (_TIMES * _BLOCK)


def socket_secs_per_byte() -> float:
    """Both ends in this process, each in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    block, room = bytes(_BLOCK), memoryview(bytearray(1 << 20))

    def send() -> None:
        for _ in range(_TIMES):
            sender.sendall(block)

    with sender, receiver:
        began = time.process_time()
        thread = threading.Thread(target=send)
        thread.start()
        left = _TIMES * _BLOCK
        while left:
            left -= receiver.recv_into(room)
        thread.join()
        return (time.process_time() - began) / (_TIMES * _BLOCK)


def _says(*words: str) -> Callable[[Line], bool]:
    """Whether a line begins with these words."""
    return lambda line: tuple(line.text.split()[: len(words)]) == words


def _tensorflow_phases() -> dict[str, float]:
    """CPU seconds of one run in each phase of `peers/probe.py`."""
    found = {}
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        for program in task_programs("probe", Setting("tiny", num_workers=1)):
            worker = processes.start(program)
        for name in ("run", "one", "many", "large"):
            worker.wait_for(_says("begin", name), within_secs=60)
            before = sum(processes.cpu_secs().values())
            end = worker.wait_for(_says("end", name), within_secs=60)
            found[name] = (sum(processes.cpu_secs().values()) - before) / int(end.text.split()[2])
    return found
