"""Runs `python -m ps_train`, or a script, in copies of a process that has imported TensorFlow, which takes seconds.

    child = ForkServer.get().start(arguments, cwd, env, mark)
    child = ForkServer.get().start(arguments, cwd, env, mark, script="train.py")
    for line in child.stdout: ...
    child.wait(10)

A copy behaves as a new process would: it has a session, a working directory, an environment and an output of its own,
and its `sys.argv` and `sys.path`.  What depends on how TensorFlow is imported needs a new process.

A copy may be a process of another host: it then gets the namespaces of any process there (`tests/hosts`).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import itertools
import json
import os
import pathlib
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import IO

ROOT = pathlib.Path(__file__).parents[3]
MARK = "PS_TRAIN_TESTS_STARTED"
"""Environment variable that a started process hands down to all of its descendants."""

MARK_LENGTH = 32
DUMP_SIGNAL = signal.SIGUSR2
"""A copy that gets it writes where each of its threads is."""

_FD = "PS_TRAIN_TESTS_FORK_SERVER"
_MOST = 1 << 18
_START_SECS = 240.0


class Copy:
    """The part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, stdout: IO[str]) -> None:
        self.pid, self.stdout = pid, stdout
        self.returncode: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("a copy", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, signum: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()


class ForkServer:
    """One for each process of tests; it ends with it."""

    _only: ForkServer | None = None
    _making = threading.Lock()

    @classmethod
    def get(cls) -> ForkServer:
        with cls._making:
            if cls._only is None:
                cls._only = ForkServer()
            return cls._only

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
        environment |= {_FD: str(theirs.fileno()), MARK: "-" * MARK_LENGTH}
        environment |= {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-m", "tests.support.machine.fork_server"]
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        self._lock = threading.Lock()
        self._started: dict[int, Copy] = {}
        self._requests = itertools.count()
        self._replies: dict[int, int] = {}
        self._replied = threading.Condition(self._lock)
        self._early: dict[int, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self._socket.close)

    def start(
        self,
        arguments: list[str],
        cwd: pathlib.Path,
        env: Mapping[str, str],
        mark: str,
        host: int | None = None,
        script: str = "",
    ) -> Copy:
        """Args:
        env: the whole environment.
        mark: MARK_LENGTH characters, the value of MARK.
        host: a process whose namespaces the copy gets; None for those of this process.
        script: a file that is run in place of `python -m ps_train`.
        """
        read, write = os.pipe()
        request = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "mark": mark, "host": host}
        request["script"] = script
        try:
            with self._replied:
                number = request["number"] = next(self._requests)  # the reply to one that gave up may still come
                socket.send_fds(self._socket, [json.dumps(request).encode()], [write])
                if not self._replied.wait_for(lambda: number in self._replies, _START_SECS):
                    raise TimeoutError("the process that makes copies of itself does not answer")
                child = Copy(self._replies.pop(number), os.fdopen(read, errors="replace"))
                self._started[child.pid] = child
                if child.pid in self._early:
                    child.end(self._early.pop(child.pid))
                return child
        finally:
            os.close(write)

    def _listen(self) -> None:
        while message := self._socket.recv(_MOST):
            told = json.loads(message)
            with self._replied:
                if "ended" not in told:
                    self._replies[told["number"]] = told["pid"]
                    self._replied.notify_all()
                elif told["pid"] in self._started:
                    self._started.pop(told["pid"]).end(told["ended"])
                else:
                    self._early[told["pid"]] = told["ended"]


def main() -> None:
    """The process that is copied: it has one thread, and never runs anything else."""
    from ps_train import __main__ as program
    from ps_train.base import gc_control
    from ps_train.base.tf_import import import_tensorflow

    gc_control.disable()
    import_tensorflow(verbose=False)
    from ps_train.commands.launch import local  # noqa: F401
    from ps_train.training.tasks import evaluator, ps, worker  # noqa: F401

    gc_control.freeze()
    requests = socket.socket(fileno=int(os.environ.pop(_FD)))
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        while (found := _reaped()) is not None:
            requests.send(json.dumps({"pid": found[0], "ended": found[1]}).encode())
        if requests in ready:
            message, fds, _, _ = socket.recv_fds(requests, _MOST, 1)
            if not message:
                return
            request = json.loads(message)
            pid = _fork(request["host"])
            if pid == 0:
                _live(request, fds[0], [requests.fileno(), woken, waker])
                if not request["script"]:
                    program.run()
                gc.enable()
                runpy.run_path(request["script"], run_name="__main__")
                return  # and it ends as any program does
            os.close(fds[0])
            requests.send(json.dumps({"number": request["number"], "pid": pid}).encode())


def _reaped() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None


def _fork(host: int | None) -> int:
    """Forks; the child has the namespaces of `host`.  Its parent knows it by a pid of its own namespace."""
    if host is None:
        return os.fork()
    if not _enter(host, "pid"):  # takes effect for children only
        return _ended_at_once()
    try:
        pid = os.fork()
    except OSError:  # its first process is ending
        _enter(os.getpid(), "pid")
        return _ended_at_once()
    if pid:
        _enter(os.getpid(), "pid")
    elif not all(_enter(host, kind) for kind in ("net", "uts", "mnt")):
        os._exit(70)
    return pid


def _ended_at_once() -> int:
    """Returns the pid of a child that ends: the host is gone."""
    pid = os.fork()
    if pid == 0:
        os._exit(70)
    return pid


def _enter(host: int, kind: str) -> bool:
    """Enters a namespace of a process; returns False if the process has ended.  os.setns is new in Python 3.12."""
    try:
        descriptor = os.open(f"/proc/{host}/ns/{kind}", os.O_RDONLY)
    except OSError:
        return False
    try:
        return ctypes.CDLL(None).setns(descriptor, 0) == 0
    finally:
        os.close(descriptor)


def _live(request: dict, output: int, others: list[int]) -> None:
    """Makes a copy a process of its own."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    for descriptor in (nothing, output, *others):
        os.close(descriptor)
    faulthandler.register(DUMP_SIGNAL, file=2)
    _write_mark(request["mark"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None  # TMPDIR may be another one
    script = request["script"]
    sys.argv = [script or sys.modules["ps_train.__main__"].__file__ or "", *request["arguments"]]
    sys.path[0] = os.path.dirname(script) if script else request["cwd"]
    importlib.invalidate_caches()


def _write_mark(mark: str) -> None:
    """Makes /proc/PID/environ show it, which is the memory that the process began with."""
    find = ctypes.CDLL(None).getenv
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    ctypes.memmove(find(MARK.encode()), mark.encode(), MARK_LENGTH)


if __name__ == "__main__":
    main()
