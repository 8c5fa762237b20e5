"""The other side of ssh: signals come as lines, and nothing outlives the connection."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.machine.proc import is_alive
from tests.support.machine.processes import eventually

WRAPPER = "import sys; from ps_train.commands.launch.remote import run; sys.exit(run(sys.argv[2:], float(sys.argv[1])))"


class Other:
    """A running other side, whose command writes the ids of its processes into files."""

    def __init__(self, directory: pathlib.Path, script: str, timeout: float = 60.0) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRAPPER, str(timeout), "sh", "-c", script],
            cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def pid(self, name: str) -> int:
        def read() -> str:
            path = self.directory / name
            return path.read_text().strip() if path.exists() else ""

        return int(str(eventually(read, 20, f"the file {name}")))

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator:
    others: list[Other] = []

    def begin(*arguments, **more) -> Other:
        others.append(Other(tmp_path, *arguments, **more))
        return others[-1]

    yield begin
    for other in others:
        other.process.kill()
        other.process.wait()
        for path in tmp_path.glob("*"):
            if path.read_text().strip().isdigit() and is_alive(int(path.read_text())):
                os.kill(int(path.read_text()), signal.SIGKILL)


FAMILY = "sleep 300 & echo $! > child; echo $$ > task; wait"


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", 139), ("echo a", 0)])
def test_the_exit_code_is_that_of_the_task(start, script: str, code: int) -> None:
    assert start(script).process.wait(20) == code


def test_a_line_is_a_signal_for_the_task(start) -> None:
    other = start("trap 'echo got it; exit 5' TERM; echo $$ > task; while :; do sleep 0.05; done")
    other.pid("task")
    other.write("\n\nSIGNONE\nSIG")
    other.write("TERM\n")
    assert other.process.wait(20) == 5 and other.process.stdout.read() == "got it\n"


def test_the_end_of_the_input_ends_all_processes_of_the_task(start) -> None:
    other = start(FAMILY)
    pids = other.pid("child"), other.pid("task")
    other.hang_up()
    assert other.process.wait(20) == 128 + signal.SIGKILL
    eventually(lambda: not any(map(is_alive, pids)), 10, "the end of both")


def test_silence_ends_them_too_and_a_sign_of_life_does_not(start) -> None:
    other = start(FAMILY, timeout=2.0)
    pids = other.pid("child"), other.pid("task")
    for _ in range(5):
        other.write("\n")
        with pytest.raises(subprocess.TimeoutExpired):
            other.process.wait(0.6)
    assert other.process.wait(20) == 128 + signal.SIGKILL
    eventually(lambda: not any(map(is_alive, pids)), 10, "the end of both")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_for_the_other_side_ends_them(start, signum: int) -> None:
    other = start(FAMILY)
    pids = other.pid("child"), other.pid("task")
    other.process.send_signal(signum)
    other.process.wait(20)
    eventually(lambda: not any(map(is_alive, pids)), 10, "the end of both")


def test_what_a_task_leaves_behind_ends_with_it(start) -> None:
    other = start("sleep 300 & echo $! > child")
    pid = other.pid("child")
    assert other.process.wait(20) == 0
    eventually(lambda: not is_alive(pid), 10, "the end of the child")
