"""Processes of a measured run: started, listened to, looked at in /proc, ended by their pid.

    with Processes(directory) as processes:
        chief = processes.start(Program("worker:0", command))
        chief.wait_for(lambda line: "first step" in line, within_secs=60)
        processes.cpu_secs()                    # {"ps": 1.2, "workers": 5.4}

Whoever waits for one of them is told by a ContenderError when any of them has failed.  Knows nothing of contenders.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
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
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_END_SECS = 10.0
_SAMPLE_SECS = 0.5
_LAST_LINES = 6
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

    def __init__(self, program: Program, directory: pathlib.Path, check: Callable[[], None]) -> None:
        """`check` raises ContenderError when one of the programs that belong together has failed."""
        self.program = program
        self._check = check
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
        """The next line that is wanted; lines before it are gone.

        Raises:
          ContenderError: this program or another one of the run has failed, or the time is over.
        """
        deadline = time.monotonic() + within_secs
        while True:
            is_over = not self.alive or time.monotonic() >= deadline
            for line in iter(self._next, None):
                if wanted(line):
                    return line
            self._check()
            if is_over:
                raise ContenderError(self.story())
            with self._arrived:
                if not self._lines:
                    self._arrived.wait(0.1)

    def _next(self) -> Line | None:
        with self._arrived:
            return self._lines.popleft() if self._lines else None

    def exit_code(self) -> int | None:
        """Returns its exit code, or minus the number of the signal that ended it; None: it has not ended."""
        return self._process.poll()

    def story(self) -> str:
        """Returns in one line how it ended, if it did, and what it printed last."""
        if not self.alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECS)  # its output ends a moment before it
        code = self.exit_code()
        if code is None:
            how = "did not say in time what it should"
        else:
            self._reader.join(1.0)
            how = f"ended with exit code {code}" + (f" ({signal.strsignal(-code)})" if code < 0 else "")
        with self._arrived:
            lines = [line.strip() for line in self.last if line.strip()]
        return f"{self.program.name} {how}; its last lines: {' | '.join(lines[-_LAST_LINES:]) or 'none'}"

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
    """All processes of one run; ends those that are left.

    Args:
      directory: in which they run.
      endless: none of them ends by itself: one that has ended has failed, whatever its exit code.
    """

    def __init__(self, directory: pathlib.Path, endless: bool = False) -> None:
        self._directory, self._endless = directory, endless
        self.running: list[Running] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        for process in self.running:
            process.end()

    def start(self, program: Program) -> Running:
        self.running.append(Running(program, self._directory, self.check))
        return self.running[-1]

    def check(self) -> None:
        """Raises ContenderError when one of them has failed."""
        codes = [(process, process.exit_code()) for process in self.running]
        failed = [process for process, code in codes if code is not None and (code or self._endless)]
        if failed:
            raise ContenderError("; ".join(process.story() for process in failed))

    def pids(self) -> dict[str, list[int]]:
        """All living ones and their descendants: those of job ps, and all others, which are "workers"."""
        found: dict[str, list[int]] = {"ps": [], "workers": []}
        for process in self.running:
            for pid in (process.pid, *descendants(process.pid)):
                is_ps = name_of(pid).startswith("ps:") or "--job_name=ps" in command_of(pid)
                found["ps" if is_ps else "workers"].append(pid)
        return found

    def freeze(self) -> None:
        """Stops all of them and their descendants where they are, until `wake`."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, signum: int) -> None:
        for pid in itertools.chain(*self.pids().values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def cpu_secs(self) -> dict[str, float]:
        """User and system time so far."""
        return {group: sum(map(cpu_secs_of, pids)) for group, pids in self.pids().items()}

    def ps_peak_bytes(self) -> int:
        """The largest resident size that the ps, all together, have had."""
        return sum(map(peak_bytes_of, self.pids()["ps"]))

    def resident_bytes(self) -> int:
        """The resident size of all living ones and their descendants now; pages that several share count in each."""
        parents = {int(path.name): stat_of(int(path.name)) for path in pathlib.Path("/proc").glob("[0-9]*")}
        found = {process.pid for process in self.running}
        more = found
        while more := {pid for pid, fields in parents.items() if fields and int(fields[1]) in more} - found:
            found |= more
        return sum(map(_resident_bytes_of, found))


class PeakMemory:
    """Looks again and again at the resident size of a run's processes, and keeps the largest.

    with PeakMemory(processes) as memory:
        ...
    memory.resident_bytes
    """

    def __init__(self, processes: Processes) -> None:
        self.resident_bytes = 0
        self._processes, self._over = processes, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_SAMPLE_SECS):
            self.resident_bytes = max(self.resident_bytes, self._processes.resident_bytes())


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


def _resident_bytes_of(pid: int) -> int:
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
