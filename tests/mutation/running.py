"""Applies mutations to copies of the project and runs their tests there.

    with Copies(root, count=2) as copies:
        verdict = copies.judge(mutation)         # from any thread

The project itself is never changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator

from tests.mutation.mutation import Mutation

KILLED, TIMED_OUT, CRASHED = NOTICED = ("killed", "killed (timed out)", "killed (crashed)")
SURVIVED, BROKEN = "SURVIVED", "BROKEN"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "runs", "__pycache__", "*.egg-info", ".*_cache", "node_modules")
_PASSED, _FAILED = 0, 1
"""Exit codes of pytest."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of one mutation; `output` is the output of its tests."""

    outcome: str
    secs: float
    output: str


class Copies:
    """Some copies of the project in a temporary directory, each used by one run of tests at a time."""

    def __init__(self, root: pathlib.Path, count: int, timeout_secs: float = 150.0) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="ps_train_mutation_")
        self._timeout_secs = timeout_secs
        self._free: queue.Queue[pathlib.Path] = queue.Queue()
        for number in range(count):
            copy = pathlib.Path(self._directory.name) / str(number)
            shutil.copytree(root, copy, ignore=LEFT_OUT, symlinks=True)
            self._free.put(copy)

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    def judge(self, mutation: Mutation) -> Verdict:
        """Returns the outcome of a mutation's tests."""
        with self._copy() as copy, _mutated(copy / mutation.file, mutation):
            return self._run(copy, mutation.tests)

    def passes(self, tests: Iterable[str]) -> Verdict:
        """Returns the outcome of tests without a mutation: SURVIVED if all of them pass."""
        with self._copy() as copy:
            return self._run(copy, tests)

    @contextlib.contextmanager
    def _copy(self) -> Iterator[pathlib.Path]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)

    def _run(self, copy: pathlib.Path, tests: Iterable[str]) -> Verdict:
        # The project's own options divide tests among processes and leave some out.
        command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "-x", "-p", "no:cacheprovider"]
        command += [f"--timeout={self._timeout_secs / 2:g}", *tests]
        # A stale .pyc would hide a mutation that leaves size and time of the file as they were.
        environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=self._timeout_secs)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return Verdict(TIMED_OUT, time.monotonic() - began, output)
        outcome = {_PASSED: SURVIVED, _FAILED: KILLED}.get(process.returncode, BROKEN)
        if process.returncode < 0:  # TensorFlow dies of a signal where a test leaves a step that hangs
            outcome = CRASHED
        return Verdict(outcome, time.monotonic() - began, output)


@contextlib.contextmanager
def _mutated(path: pathlib.Path, mutation: Mutation) -> Iterator[None]:
    text = path.read_text()
    path.write_text(mutation.applied_to(text))
    try:
        yield
    finally:
        path.write_text(text)
