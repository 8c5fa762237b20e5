"""Real processes for tests: started with free ports, watched with deadlines, always ended by their pid."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.machine.fork_server import MARK, ROOT, Copy, ForkServer
from tests.support.machine.ports import free_ports
from tests.support.machine.proc import command_of, marked

_READ_LATE = {"TF_CONFIG", "TMPDIR", "BUILD_SECS"}
"""Environment variables with which a copy of a process that has imported TensorFlow does what a new one does."""


def eventually(condition: Callable[[], object], within_secs: float = 30.0, what: str = "the condition") -> object:
    """The first true value of `condition`; fails the test at the deadline."""
    deadline = time.monotonic() + within_secs
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"{what} did not come true within {within_secs:g}s")


class Process:
    """A running `python -m ps_train` (or another command) and what it has printed so far.

    Args:
      start: starts it with an environment variable MARK of this value.
    """

    def __init__(self, start: Callable[[str], subprocess.Popen | Copy]) -> None:
        mark = uuid.uuid4().hex
        self._mark = f"{MARK}={mark}"
        self.process = start(mark)
        self.pid = self.process.pid
        self.lines: list[str] = []
        self.ended_at: float | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
        self.process.wait()
        self.ended_at = time.monotonic()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait(self, within_secs: float = 60.0) -> int:
        """Its exit code."""
        self._reader.join(within_secs)
        if self.process.poll() is None:
            pytest.fail(f"pid {self.pid} did not end within {within_secs:g}s; it printed:\n{self.output}")
        return self.process.returncode

    def wait_for(self, text: str, within_secs: float = 60.0) -> None:
        def seen() -> bool:
            if text in self.output:
                return True
            if self.process.poll() is not None and not self._reader.is_alive():
                pytest.fail(f"ended with {self.process.returncode} before it printed {text!r}:\n{self.output}")
            return False

        eventually(seen, within_secs, f"{text!r} in the output")

    def descendants(self) -> list[int]:
        """Returns all living processes that came from this one, also those that have another parent by now."""
        return [pid for pid in marked(self._mark) if pid != self.pid]

    def send(self, signum: int) -> None:
        self.process.send_signal(signum)
        if signum == signal.SIGKILL:
            self.process.wait(10)  # its port is free then

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self._reader.join(10)


class Processes:
    """Starts processes and ends those that are left, with all their descendants."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.started: list[Process] = []

    def run(
        self,
        *arguments: str,
        cwd: pathlib.Path | None = None,
        env: dict[str, str] | None = None,
        new: bool = False,
        host: int | None = None,
    ) -> Process:
        """`python -m ps_train` with these arguments; `new`: in a process that has imported nothing.

        host: a process whose namespaces it gets; not together with `new`, or with an `env` that a new process needs.
        """
        if new or _needs_new(env):
            return self.command([sys.executable, "-m", "ps_train", *arguments], cwd, env)
        environment = _environment(env)
        return self._add(
            lambda mark: ForkServer.get().start(
                list(arguments), cwd or self.directory, {**environment, MARK: mark}, mark, host
            )
        )

    def script(self, path: str | pathlib.Path, *arguments: str, env: dict[str, str] | None = None) -> Process:
        """A Python script with these arguments, in a process that has imported TensorFlow without Keras."""
        if _needs_new(env):
            return self.command([sys.executable, str(path), *arguments], env=env)
        environment = _environment(env)

        def start(mark: str) -> Copy:
            whole = {**environment, MARK: mark}
            return ForkServer.get().start(list(arguments), self.directory, whole, mark, script=str(path))

        return self._add(start)

    def command(
        self, command: list[str], cwd: pathlib.Path | None = None, env: dict[str, str] | None = None
    ) -> Process:
        environment = _environment(env)

        def start(mark: str) -> subprocess.Popen:
            return subprocess.Popen(
                command,
                cwd=cwd or self.directory,
                env={**environment, MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

        return self._add(start)

    def _add(self, start: Callable[[str], subprocess.Popen | Copy]) -> Process:
        process = Process(start)
        self.started.append(process)
        return process

    def orphans(self) -> dict[int, str]:
        """Returns pid and command line of each living descendant of a process that has ended."""
        ended = [process for process in self.started if process.process.poll() is not None]
        return {pid: command_of(pid) for process in ended for pid in process.descendants()}

    def end(self) -> None:
        for process in self.started:
            process.kill()
            for pid in process.descendants():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _needs_new(changes: dict[str, str] | None) -> bool:
    """Whether a copy of a process that has imported TensorFlow would do other things in this environment."""
    changed = {name for name, value in (changes or {}).items() if os.environ.get(name) != value}
    return not sys.platform.startswith("linux") or bool(changed - _READ_LATE)


def _environment(changes: dict[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return kept | (changes or {}) | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}  # for tests.support.models.small


class TestCluster:
    """Host lists on free ports, and the processes of one job with the same flags."""

    __test__ = False

    def __init__(
        self, processes: Processes, num_ps: int, num_workers: int, *flags: str, host: str = "127.0.0.1"
    ) -> None:
        ports = free_ports(num_ps + num_workers)
        addresses = [f"{host}:{port}" for port in ports]
        self._processes = processes
        self.ps_hosts, self.worker_hosts = addresses[:num_ps], addresses[num_ps:]
        self.model_dir = processes.directory / "model"
        self.flags = [
            f"--ps_hosts={','.join(self.ps_hosts)}",
            f"--worker_hosts={','.join(self.worker_hosts)}",
            "--startup_timeout_secs=40",
            *flags,
        ]

    def start(self, job_name: str, index: int, *flags: str, env: dict[str, str] | None = None) -> Process:
        own = [f"--job_name={job_name}", f"--task_index={index}"]
        if job_name == "worker" and index == 0:
            own.append(f"--model_dir={self.model_dir}")
        return self._processes.run(*self.flags, *own, *flags, env=env)

    def start_all(self, *flags: str) -> tuple[list[Process], list[Process]]:
        servers = [self.start("ps", index, *flags) for index in range(len(self.ps_hosts))]
        return servers, [self.start("worker", index, *flags) for index in range(len(self.worker_hosts))]


def make_processes(directory: pathlib.Path) -> Iterator[Processes]:
    processes = Processes(directory)
    try:
        yield processes
    finally:
        processes.end()
