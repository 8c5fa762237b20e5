"""A whole cluster on this machine: starts the other roles as child processes, shows what they say, sees them end.

The launcher imports neither TensorFlow nor numpy.  Children get ports that are held for them until they serve, die with
the launcher, and are all ended when one of them fails: the first failure is reported as the cause.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ps_train.config import HELD_PORT_VARIABLE, WATCH_STDIN_VARIABLE, Job
from ps_train.console import PROGRESS_BEGINS, Console
from ps_train.errors import EXIT_DONE, EXIT_FAILED, ConfigError, exit_code_of_signal

GRACE_SECS = 10.0
"""From a signal, or a child's failure, to SIGKILL for those that are still there."""

_LAST_LINES = 15

_LOOK_SECS = 0.5
"""A signal that the kernel gave to another thread does not end the main thread's wait; it is handled when that ends."""


@dataclasses.dataclass
class Child:
    """One task of the job as a process."""

    name: str
    is_chief: bool
    process: subprocess.Popen[str]
    lines: collections.deque[str]
    reader: threading.Thread


class HeldPorts:
    """Free ports that stay ours: each socket is bound until the child that inherits it starts its server."""

    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}

    def hold(self) -> str:
        """A new `127.0.0.1:port`."""
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        self.sockets[address] = held
        return address


def run(job: Job, arguments: Sequence[str], environ: Mapping[str, str], console: Console) -> int:
    """Runs the job as child processes; returns its exit code.

    Args:
      arguments: the flags that the user gave, to be passed on.
    """
    launcher = _Launcher(console)
    launcher.install_signals()
    ports = HeldPorts()
    job, arguments = _with_addresses(job, list(arguments), ports)
    arguments += [] if job.model_dir else [f"--model_dir={_new_directory(job)}"]
    if console.live and not any(a.startswith("--log_secs") for a in arguments):
        arguments.append("--log_secs=0.5")
    tasks = [("ps", i, host) for i, host in enumerate(job.ps_hosts)]
    tasks += [("chief", i, host) for i, host in enumerate(job.chief_hosts)]
    tasks += [("worker", i, host) for i, host in enumerate(job.worker_hosts)]
    return launcher.run(tasks, arguments, environ, ports)


def _with_addresses(job: Job, arguments: list[str], ports: HeldPorts) -> tuple[Job, list[str]]:
    """The job with host lists: those that were given, or free ports of this machine."""
    if job.ps_hosts or job.worker_hosts:
        for name in ("num_ps", "num_workers"):
            if getattr(job, name) is not None:
                raise ConfigError(f"{name}={getattr(job, name)} and host lists are both given: use one of them.")
        return job, arguments
    ps = tuple(ports.hold() for _ in range(job.num_ps or 1))
    workers = tuple(ports.hold() for _ in range(job.num_workers or 2))
    arguments = [a for a in arguments if not a.startswith(("--num_ps=", "--num_workers="))]
    arguments += [f"--ps_hosts={','.join(ps)}", f"--worker_hosts={','.join(workers)}"]
    return dataclasses.replace(job, ps_hosts=ps, worker_hosts=workers), arguments


def _new_directory(job: Job) -> str:
    name = job.model.rpartition(":")[2].lower()
    return os.path.abspath(os.path.join("runs", f"{name}-{job.update}-{time.strftime('%Y%m%d-%H%M%S')}"))


class _Launcher:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._children: list[Child] = []
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._signals: list[int] = []

    def install_signals(self) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, lambda got, frame: self._events.put(("signal", got)))

    def run(
        self, tasks: list[tuple[str, int, str]], arguments: list[str], environ: Mapping[str, str], ports: HeldPorts
    ) -> int:
        try:
            for job_name, index, host in tasks:
                self._start(job_name, index, arguments, environ, ports.sockets.get(host))
            return self._watch()
        finally:
            self._kill_all()

    def _start(
        self,
        job_name: str,
        index: int,
        arguments: list[str],
        environ: Mapping[str, str],
        held: socket.socket | None,
    ) -> None:
        command = [sys.executable, "-m", "ps_train", *arguments, f"--job_name={job_name}", f"--task_index={index}"]
        environment = {name: value for name, value in environ.items() if name != "TF_CONFIG"}
        environment |= {WATCH_STDIN_VARIABLE: "1", "PYTHONUNBUFFERED": "1"}
        if held is not None:
            environment[HELD_PORT_VARIABLE] = str(held.fileno())
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # never written: it closes when the launcher dies, however it dies
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            pass_fds=[held.fileno()] if held is not None else [],
            start_new_session=True,  # Ctrl-C reaches the launcher alone, which passes it on
        )
        if held is not None:
            held.close()
        name = f"{job_name}:{index}"
        lines: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        is_chief = not self._children_of("chief", "worker") and job_name != "ps"
        reader = threading.Thread(target=self._read, args=(name, process, lines, is_chief), daemon=True)
        self._children.append(Child(name, is_chief, process, lines, reader))
        reader.start()

    def _children_of(self, *job_names: str) -> list[Child]:
        return [child for child in self._children if child.name.partition(":")[0] in job_names]

    def _read(self, name: str, process: subprocess.Popen[str], lines: collections.deque[str], is_chief: bool) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            line = line.rstrip("\n")
            if is_chief and line.startswith(PROGRESS_BEGINS):
                self._console.progress(line)
                continue
            lines.append(line)
            self._console.line(line if is_chief else f"[{name}] {line}")
        self._events.put(("exit", name))
        process.wait()

    def _watch(self) -> int:
        """Until every child has ended; the exit code of the job."""
        failed: Child | None = None
        done = False
        deadline: float | None = None
        running = {child.name for child in self._children}
        while running:
            try:
                kind, what = self._events.get(timeout=_LOOK_SECS)
            except queue.Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    self._kill_all()
                    deadline = None
                continue
            if kind == "signal":
                deadline = self._pass_on(what, deadline)
                continue
            running.discard(what)
            child = next(child for child in self._children if child.name == what)
            code = child.process.wait()
            if self._signals or done or failed is not None:
                continue
            # Done is what the chief says is done; a worker that came too late to hear of it must not wait for more.
            done = child.is_chief and code == EXIT_DONE
            failed = child if code != EXIT_DONE else None
            if done or failed is not None:
                deadline = time.monotonic() + GRACE_SECS
                self._terminate_soon()
        if self._signals:
            return exit_code_of_signal(self._signals[0])
        return self._report(failed) if failed is not None else EXIT_DONE

    def _pass_on(self, signum: int, deadline: float | None) -> float | None:
        """The first signal goes to the children; the second one ends them at once."""
        self._signals.append(signum)
        if len(self._signals) > 1:
            self._kill_all()
            return deadline
        for child in self._children:
            _send(
                child, signal.SIGTERM if signum == signal.SIGHUP else signum
            )  # a closed terminal is no reason not to save
        return time.monotonic() + GRACE_SECS

    def _terminate_soon(self) -> None:
        """The others hear of the end by themselves; those that do not are told after a moment."""

        def terminate() -> None:
            for child in self._children:
                _send(child, signal.SIGTERM)

        timer = threading.Timer(GRACE_SECS / 2, terminate)
        timer.daemon = True
        timer.start()

    def _kill_all(self) -> None:
        for child in self._children:
            _send(child, signal.SIGKILL)
        for child in self._children:
            child.process.wait()

    def _report(self, child: Child) -> int:
        code = child.process.returncode
        how = (
            f"was ended by signal {-code} ({signal.Signals(-code).name})"
            if code < 0
            else f"failed with exit code {code}"
        )
        last = next((line for line in reversed(child.lines) if line.strip()), "it printed nothing")
        self._console.line(f"ps_train: {child.name} {how}, and so the job failed: {last}")
        return code if code > 0 else EXIT_FAILED


def _send(child: Child, signum: int) -> None:
    if child.process.poll() is None:
        child.process.send_signal(signum)
