"""The log of a task has all that its process writes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

CODE = """
import os, sys, signal
from ps_train.commands.launch.task_log import TaskLog
log = TaskLog(sys.argv[1], "worker:3")
print("by Python", flush=True)
os.write(2, b"by a library\\n")
if sys.argv[2] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
print("the last words", flush=True)
lost = log.close()
print("after the end", flush=True)
log.error(f"lost: {lost}")
os._exit(0)
"""


def run(directory: pathlib.Path, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CODE, directory, how], capture_output=True, text=True, timeout=30)


def test_it_is_a_copy_of_both_streams_which_stay_apart(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path / "a" / "b", "ends")
    assert (done.returncode, done.stdout, done.stderr) == (0, "by Python\nthe last words\n", "by a library\nlost: \n")
    lines = (tmp_path / "a" / "b" / "worker_3.log").read_text().splitlines()
    assert sorted(lines) == ["by Python", "by a library", "the last words"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_log_on_a_full_disk_is_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "worker_3.log").symlink_to("/dev/full")
    done = run(tmp_path, "ends")
    assert done.stdout == "by Python\nthe last words\n" and "by a library\n" in done.stderr
    assert done.stderr.endswith(f"lost: log_dir={tmp_path}\n")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_line_is_written_when_it_is_whole(tmp_path: pathlib.Path, name: str) -> None:
    """Otherwise a line of the other stream can come into the middle of it, where Python does not buffer."""
    code = f"""
import os, sys
from ps_train.commands.launch.task_log import TaskLog
log = TaskLog({str(tmp_path)!r}, "worker:3")
print("by", "Py", sep="", end="", file=sys.{name})
print("by a library", file=sys.{"stderr" if name == "stdout" else "stdout"}, flush=True)
path = {str(tmp_path / "worker_3.log")!r}
while "library" not in open(path).read():
    pass
print("thon", file=sys.{name})
log.close()
os._exit(0)
"""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=30, env=environment)
    assert (tmp_path / "worker_3.log").read_text() == "by a library\nbyPython\n"


def test_the_words_before_a_crash_are_in_it(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path, "dies").returncode == -9
    assert sorted((tmp_path / "worker_3.log").read_text().splitlines()) == ["by Python", "by a library"]


def test_a_second_process_appends(tmp_path: pathlib.Path) -> None:
    run(tmp_path, "dies")
    run(tmp_path, "ends")
    assert (tmp_path / "worker_3.log").read_text().count("by Python\n") == 2


def test_a_directory_that_cannot_be_made_is_a_configuration_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file", "ends")
    assert "ConfigError: log_dir=" in done.stderr and "use another directory" in done.stderr


def test_a_fifo_that_nobody_reads_is_refused_and_not_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "worker_3.log")
    done = run(tmp_path, "ends")
    assert done.returncode == 1 and "worker_3.log cannot be written (No such device or address)" in done.stderr
