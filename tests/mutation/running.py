"""Applies mutations to copies of the project and runs their tests there.

    with Copies(root, count=2) as copies:
        for mutation, verdict in copies.judge(mutations):
            ...

The project itself is never changed.  Each run of tests is a copy of this process (fork), which has imported TensorFlow
and nothing of the project's: to import it anew would take most of the time.  So this process must have one thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Iterable, Iterator

from tests.mutation.mutation import Mutation
from tests.support.processes import marked

KILLED, TIMED_OUT, CRASHED = NOTICED = ("killed", "killed (timed out)", "killed (crashed)")
SURVIVED, BROKEN = "SURVIVED", "BROKEN"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "runs", "__pycache__", "*.egg-info", ".*_cache", "node_modules")
_PASSED, _FAILED = 0, 1
"""Exit codes of pytest."""

_OWN = ("tests", "benchmarks", "ps_train")
"""Packages of the project, which a run of tests imports from its copy."""

_MARK = "PS_TRAIN_MUTATION"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of one mutation; `output` is the output of its tests."""

    outcome: str
    secs: float
    output: str


@dataclasses.dataclass
class _Running:
    """A run of tests in a copy, under a mutation or (None) without one."""

    mutation: Mutation | None
    copy: pathlib.Path
    pid: int
    mark: str
    began: float = dataclasses.field(default_factory=time.monotonic)

    def end(self) -> None:
        """Ends what the tests have left over, and makes the copy whole again."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in marked(f"{_MARK}={self.mark}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Copies:
    """Some copies of the project in a temporary directory, each used by one run of tests at a time."""

    def __init__(self, root: pathlib.Path, count: int, timeout_secs: float = 400.0) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="ps_train_mutation_")
        self._root, self._timeout_secs = root, timeout_secs
        self._free = [pathlib.Path(self._directory.name) / str(number) for number in range(count)]
        for copy in self._free:
            shutil.copytree(root, copy, ignore=LEFT_OUT, symlinks=True)

    def __enter__(self) -> Copies:
        _import_what_takes_long()
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    def passes(self, tests: Iterable[str]) -> Iterator[tuple[str, Verdict]]:
        """Yields each test file, or test, with its outcome without a mutation: SURVIVED where it passes."""
        jobs = [(None, (test,)) for test in tests]
        for (_, (test,)), verdict in self._run_all(jobs):
            yield test, verdict

    def judge(self, mutations: Iterable[Mutation]) -> Iterator[tuple[Mutation, Verdict]]:
        """Yields each mutation with the outcome of its tests, as soon as it is there."""
        for (mutation, _), verdict in self._run_all([(one, one.tests) for one in mutations]):
            assert mutation is not None
            yield mutation, verdict

    def _run_all(self, jobs: list[tuple[Mutation | None, tuple[str, ...]]]) -> Iterator[tuple[tuple, Verdict]]:
        waiting, running = list(jobs), {}
        try:
            while waiting or running:
                while waiting and self._free:
                    job = waiting.pop(0)
                    started = self._start(self._free.pop(), *job)
                    running[started.pid] = started, job
                for pid in list(running):
                    verdict = self._verdict(running[pid][0])
                    if verdict is not None:
                        started, job = running.pop(pid)
                        self._free.append(started.copy)
                        yield job, verdict
                time.sleep(0.05)
        finally:
            for started, _ in running.values():
                started.end()

    def _start(self, copy: pathlib.Path, mutation: Mutation | None, tests: tuple[str, ...]) -> _Running:
        if mutation is not None:
            (copy / mutation.file).write_text(mutation.applied_to((self._root / mutation.file).read_text()))
        mark = uuid.uuid4().hex
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _become_a_run_of_tests(copy, tests, mark, self._timeout_secs / 2)
        return _Running(mutation, copy, pid, mark)

    def _verdict(self, running: _Running) -> Verdict | None:
        """Returns None while the tests are running."""
        pid, status = os.waitpid(running.pid, os.WNOHANG)
        secs = time.monotonic() - running.began
        if pid == 0 and secs < self._timeout_secs:
            return None
        running.end()
        if pid == 0:
            os.waitpid(running.pid, 0)
        if running.mutation is not None:
            shutil.copyfile(self._root / running.mutation.file, running.copy / running.mutation.file)
        output = (running.copy / "output.txt").read_text(errors="replace")
        return Verdict(TIMED_OUT if pid == 0 else _outcome(os.waitstatus_to_exitcode(status)), secs, output)


def _outcome(code: int) -> str:
    if code < 0:  # TensorFlow dies of a signal where a test leaves a step that hangs
        return CRASHED
    return {_PASSED: SURVIVED, _FAILED: KILLED}.get(code, BROKEN)


def _import_what_takes_long() -> None:
    import tensorflow.compat.v1  # noqa: F401


def _become_a_run_of_tests(copy: pathlib.Path, tests: tuple[str, ...], mark: str, timeout_secs: float) -> None:
    """Runs the tests in this process, a copy, and ends it."""
    code = BROKEN_CODE
    try:
        os.setsid()
        output = os.open(copy / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for end in (1, 2):
            os.dup2(output, end)
        os.chdir(copy)
        # A stale .pyc would hide a mutation that leaves size and time of the file as they were.
        os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", _MARK: mark}
        sys.dont_write_bytecode = True
        sys.path[:] = [str(copy), *(path for path in sys.path if path not in ("", os.environ.get("PYTHONPATH")))]
        for name in [name for name in sys.modules if name.partition(".")[0] in _OWN]:
            del sys.modules[name]
        import pytest

        # The project's own options divide tests among processes and leave some out.
        options = ["-o", "addopts=", "-q", "-x", "-p", "no:cacheprovider", f"--timeout={timeout_secs:g}"]
        code = int(pytest.main([*options, *tests]))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


BROKEN_CODE = 3
"""Exit code of a run of tests that could not be made."""
