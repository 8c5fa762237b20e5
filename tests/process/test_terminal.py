"""The progress line in a real terminal: one row that never wraps, without escape codes in a dumb terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.long import long
from tests.support.machine.processes import ROOT, Processes, eventually

FLAGS = ["--num_workers=1", "--max_steps=60", "--model=tests.support.models.small:Linear", "--log_secs=0.05"]
UPDATE = "\r\x1b[K"


class Terminal:
    """A pseudo-terminal of a size, and all that was written to it."""

    def __init__(self, columns: int) -> None:
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while chunk := os.read(self._master, 1 << 16):
                self.written += chunk
        except OSError:  # the last process has closed it
            pass

    def text(self) -> str:
        os.close(self.slave)
        self._reader.join(30)
        os.close(self._master)
        return self.written.decode()


def shown_in(columns: int, term: str, processes: Processes) -> str:
    terminal = Terminal(columns)
    command = [sys.executable, "-m", "ps_train", *FLAGS, f"--model_dir={processes.directory}/m"]
    environment = {**os.environ, "TERM": term, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave, env=environment
    ) as run:
        try:
            assert run.wait(110) == 0
        finally:
            run.kill()
    return terminal.text()


@pytest.mark.parametrize("columns", [long(80), long(40)])
def test_every_update_of_the_progress_line_fits_the_terminal(columns: int, processes: Processes) -> None:
    text = shown_in(columns, "xterm", processes)
    updates = [update.partition("\r\n")[0] for update in text.split(UPDATE)[1:]]
    assert len(updates) >= 1
    assert max(map(len, updates)) < columns
    parts = [r"\[#*-*\]", r"\d+/60", "loss ", "examples/s|ex/s", r"\d:\d\d"]
    for update in updates:
        assert all(re.search(part, update) for part in parts), update
    assert text.replace(UPDATE, "").count("\x1b") == 0
    assert f"checkpoint {processes.directory}/m/model.ckpt-60\r\n" in text


@pytest.mark.long
def test_a_dumb_terminal_gets_whole_lines_without_escape_codes(processes: Processes) -> None:
    text = shown_in(80, "dumb", processes)
    assert "\x1b" not in text and "\r" not in text.replace("\r\n", "")
    assert re.search(r"\nstep \d+/60  loss .* examples/s .*ETA \d+:\d\d\r\n", text)


@pytest.fixture
def tmux() -> Iterator[Any]:
    """Runs a command of a tmux server of this test's own; returns its output."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("tmux is not installed")
    socket = f"ps_train-{uuid.uuid4().hex}"

    def call(*arguments: str) -> str:
        command = [program, "-L", socket, "-f", os.devnull, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout

    yield call
    call("kill-server")


@pytest.mark.long
@pytest.mark.parametrize("columns", [80, long(40)])
def test_the_screen_of_a_terminal_has_one_progress_line_and_no_remains_of_others(
    columns: int, processes: Processes, tmux: Any
) -> None:
    command = [sys.executable, "-m", "ps_train", *FLAGS, f"--model_dir={processes.directory}/m"]
    shell = f"PYTHONPATH={ROOT} {shlex.join(command)}; echo ended with $?; sleep 600"
    tmux("new-session", "-d", "-x", str(columns), "-y", "60", shell)

    def screen() -> list[str]:
        return tmux("capture-pane", "-p").rstrip().splitlines()

    def rows() -> list[str]:
        return [row for row in screen() if "/60" in row and "[" in row and "loss" in row]

    eventually(lambda: any("ended with" in row for row in screen()), 110, "the end of the run")
    assert "ended with 0" in screen()
    last = rows()[-1]
    assert len(last) < columns and re.search(r"\[#+\].* 60/60 .*loss .*0:00$", last), last
    after = screen()[screen().index(last) + 1]
    assert after.startswith("trained 60 steps"), "no remains below the progress line"
    assert all(row.startswith(("[#", "[-")) for row in screen() if "loss" in row or "ETA" in row)
