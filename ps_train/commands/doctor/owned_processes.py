"""Child processes of the doctor, which end with it.

    with Children() as children:
        children.start(["ps_train", "--num_ps=1"], os.environ)

Standard library only.
"""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from ps_train.base.children import start_text_child
from ps_train.commands.launch.child_process import child_environment


class Children:
    """Child processes of this process; all are ended by `end`, from any thread."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def start(
        self, arguments: Sequence[str], environ: Mapping[str, str], held: int | None = None
    ) -> subprocess.Popen[str]:
        """Starts `python -m ARGUMENTS`; it ends with this process.

        Args:
          arguments: module and arguments.
          environ: the environment.
          held: file descriptor of the socket that reserves the process's port; None if none is reserved.
        """
        own = {name: value for name, value in environ.items() if name != "TF_CONFIG"}
        with self._lock:
            process = start_text_child(
                [sys.executable, "-m", *arguments],
                child_environment(own, held),
                stderr=subprocess.STDOUT,
                inherited=[] if held is None else [held],
            )
            self._processes.append(process)
        return process

    def end(self) -> None:
        """Kills all processes with their children."""
        with self._lock:
            for process in self._processes:
                pids = [process.pid, *children_of(process.pid)]
                for pid in pids:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()
                _await_end(pids[1:])
            self._processes = []


def _await_end(pids: Sequence[int]) -> None:
    """Waits until killed processes are gone, at most for some seconds: they may still write into a directory."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(_state_of(pid) not in ("", "Z") for pid in pids):
        time.sleep(0.02)


def children_of(parent: int) -> dict[int, str]:
    """Returns pid and name of the children of a process."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        fields = _stat_of(path)
        if fields and int(fields[2]) == parent:
            found[int(path.split("/")[2])] = fields[0]
    return found


def _state_of(pid: int) -> str:
    return (_stat_of(f"/proc/{pid}/stat") or ["", ""])[1]


def _stat_of(path: str) -> list[str]:
    """Returns name, state, parent and the further fields of a process; empty if it is gone."""
    try:
        with open(path) as file:
            text = file.read()
    except OSError:
        return []
    _, _, rest = text.partition("(")
    name, _, fields = rest.rpartition(")")
    return [name, *fields.split()]
