"""Processes of a measured run: started, listened to, looked at in /proc, ended by their pid.

    with Processes(directory) as processes:
        chief = processes.start(Program("worker:0", command))
        chief.wait_for(lambda line: "first step" in line, within_secs=60)
        processes.cpu_secs()                    # {"ps": 1.2, "workers": 5.4}

Knows nothing of contenders.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.errors import ContenderError
from tests.support.machine.proc import command_of, descendants, name_of, stat_of

ROOT = pathlib.Path(__file__).parents[1]
_TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
_END_SECS = 10.0
_LEFT_OUT = ("TF_CONFIG", "TF_GRPC_REUSE_PORT", "PYTHONPATH")


@dataclasses.dataclass(frozen=True)
class Program:
    """One process to start; `name` is for messages, `environment` is added to this process's own."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Line:
    """What a process printed, and when it arrived (seconds of the monotonic clock)."""

    time: float
    text: str


class Running:
    """A started program and the lines that it has printed."""

    def __init__(self, program: Program, directory: pathlib.Path) -> None:
        self.program = program
        environment = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            program.command,
            cwd=directory,
            env=environment | {"CUDA_VISIBLE_DEVICES": "-1"} | dict(program.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.pid = self._process.pid
        self._arrived = threading.Condition()
        self._lines: collections.deque[Line] = collections.deque()
        self.last = collections.deque[str](maxlen=20)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for text in output:
                line = Line(time.monotonic(), text.rstrip("\n"))
                with self._arrived:
                    self._lines.append(line)
                    self.last.append(line.text)
                    self._arrived.notify_all()

    @property
    def alive(self) -> bool:
        return self._reader.is_alive()

    def take(self) -> list[Line]:
        """The lines that have arrived and that nobody has waited for."""
        with self._arrived:
            taken = list(self._lines)
            self._lines.clear()
        return taken

    def wait_for(self, wanted: Callable[[Line], bool], within_secs: float) -> Line:
        """The next line that is wanted; lines before it are gone.  Raises ContenderError at the deadline."""
        deadline = time.monotonic() + within_secs
        while True:
            with self._arrived:
                while not self._lines and time.monotonic() < deadline and self._reader.is_alive():
                    self._arrived.wait(0.1)
                line = self._lines.popleft() if self._lines else None
            if line is not None:
                if wanted(line):
                    return line
                continue
            how = "said nothing of it in time" if self._reader.is_alive() else "ended"
            shown = "\n  ".join(self.last)
            raise ContenderError(f"{self.program.name} {how}; its last lines:\n  {shown}")

    def end(self) -> None:
        """Kills it and all its descendants."""
        pids = [self.pid, *descendants(self.pid)] if self._process.poll() is None else []
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        self._reader.join(10)
        deadline = time.monotonic() + _END_SECS
        while any(map(stat_of, pids[1:])) and time.monotonic() < deadline:  # not our children: nobody tells us
            time.sleep(0.01)


class Processes:
    """All processes of one run; ends those that are left."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self.running: list[Running] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        for process in self.running:
            process.end()

    def start(self, program: Program) -> Running:
        self.running.append(Running(program, self._directory))
        return self.running[-1]

    def pids(self) -> dict[str, list[int]]:
        """All living ones and their descendants: those of job ps, and all others, which are "workers"."""
        found: dict[str, list[int]] = {"ps": [], "workers": []}
        for process in self.running:
            for pid in (process.pid, *descendants(process.pid)):
                is_ps = name_of(pid).startswith("ps:") or "--job_name=ps" in command_of(pid)
                found["ps" if is_ps else "workers"].append(pid)
        return found

    def cpu_secs(self) -> dict[str, float]:
        """User and system time so far."""
        return {group: sum(map(cpu_secs_of, pids)) for group, pids in self.pids().items()}

    def ps_peak_bytes(self) -> int:
        """The largest resident size that the ps, all together, have had."""
        return sum(map(peak_bytes_of, self.pids()["ps"]))


def cpu_secs_of(pid: int) -> float:
    fields = stat_of(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SEC if fields else 0.0


def peak_bytes_of(pid: int) -> int:
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) * 1024 if found else 0
