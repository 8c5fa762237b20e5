"""The command line for ssh, and a process behind it."""

from __future__ import annotations

import shlex
import signal
import subprocess

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.launch.ssh import Remote, SshProcess
from tests.support.machine.proc import is_alive
from tests.support.machine.processes import eventually

REMOTE = Remote(["ssh", "-p", "2200"], "/my python", "/a dir", {"A": "x y", "B": "'"}, 30.0)


def test_the_command_survives_the_shell_of_the_host() -> None:
    *ssh, host, command = REMOTE.command("me@b", ["--model_arg=a=$HOME; b", "--x="])
    assert (ssh, host) == (["ssh", "-p", "2200"], "me@b")
    change, _, rest = command.partition(" && ")
    assert shlex.split(change) == ["cd", "/a dir"]
    expected = ["exec", "env", "A=x y", "B='", "/my python", "-m", "ps_train.commands.launch.remote", "30"]
    assert shlex.split(rest) == [*expected, "--model_arg=a=$HOME; b", "--x="]
    done = subprocess.run(["sh", "-c", f"set -- {rest}; printf '%s\\n' \"$@\""], capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == ["--model_arg=a=$HOME; b", "--x="]


def test_signals_are_lines_and_the_end_of_the_input_is_a_kill() -> None:
    process = SshProcess(["sh", "-c", "read a; echo $a; read b; echo $b.; exec cat"])
    process.send(signal.SIGTERM)
    assert process.stdout is not None and process.stdout.readline() == "SIGTERM\n"
    process.send(signal.SIGINT)
    assert process.stdout.readline() == "SIGINT.\n" and process.poll() is None
    process.send(signal.SIGKILL)
    process.send(signal.SIGTERM)  # too late, and harmless
    assert process.wait() == 0 and process.poll() == 0


def test_a_connection_that_does_not_end_is_killed(monkeypatch) -> None:
    monkeypatch.setattr("ps_train.commands.launch.ssh._KILL_SECS", 0.1)
    process = SshProcess(["sleep", "300"])
    process.send(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_what_ssh_has_started_is_killed_with_it(monkeypatch) -> None:
    monkeypatch.setattr("ps_train.commands.launch.ssh._KILL_SECS", 0.1)
    process = SshProcess(["sh", "-c", "sleep 300 & echo $!; wait"])
    assert process.stdout is not None
    started = int(process.stdout.readline())
    process.send(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    eventually(lambda: not is_alive(started), 10, "the end of what ssh has started")


def test_it_shows_that_it_lives(monkeypatch) -> None:
    monkeypatch.setattr("ps_train.commands.launch.ssh._ALIVE_SECS", 0.05)
    process = SshProcess(["sh", "-c", "read a; read b; read c; echo lives$a$b$c"])
    assert process.stdout is not None and process.stdout.readline() == "lives\n"
    assert process.wait() == 0


@pytest.mark.parametrize(("code", "seen"), [(0, 0), (2, 2), (143, 143), (137, -9), (139, -11), (255, 255)])
def test_a_crash_of_the_task_is_told_from_its_exit_codes(code: int, seen: int) -> None:
    assert SshProcess(["sh", "-c", f"exit {code}"]).wait() == seen


def test_an_ssh_that_is_not_there_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="--ssh"):
        SshProcess(["/no/such/ssh"])
