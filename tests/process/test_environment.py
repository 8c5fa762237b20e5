"""The run_*.sh in a fresh clone: they make .venv once, and pip shows what it does.

The clone has a small package in the place of ps_train, which needs a wheel of some megabytes from a local server.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import pathlib
import pty
import shlex
import shutil
import subprocess
import sys
import threading
import zipfile

import pytest

from tests.support.machine.processes import ROOT

pytestmark = pytest.mark.timeout(300)

BACKEND = """
import os, zipfile

def build_editable(directory, config_settings=None, metadata_directory=None):
    if os.path.exists("broken"):
        raise SystemExit("the build is broken")
    name = "ps_train-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.writestr("ps_train/__init__.py", "")
        wheel.writestr("ps_train/__main__.py", "import sys; print('trains', sys.argv[1:])")
        wheel.writestr("ps_train-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: ps_train\\nVersion: 1\\n"
                       "Requires-Dist: large @ http://127.0.0.1:{port}/large-1-py3-none-any.whl\\n")
        wheel.writestr("ps_train-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nTag: py3-none-any\\n")
        wheel.writestr("ps_train-1.dist-info/RECORD", "")
    return name
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None: ...


@pytest.fixture
def port(tmp_path):
    """Serves a wheel of 3 MB."""
    folder = tmp_path / "served"
    folder.mkdir()
    with zipfile.ZipFile(folder / "large-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("large.bin", os.urandom(3_000_000))
        wheel.writestr("large-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: large\nVersion: 1\n")
        wheel.writestr("large-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nTag: py3-none-any\n")
        wheel.writestr("large-1.dist-info/RECORD", "")
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(20)


@pytest.fixture
def clone(tmp_path, port):
    folder = tmp_path / "clone"
    (folder / "scripts").mkdir(parents=True)
    for name in ("run_local.sh", "run_ps.sh", "run_worker.sh", "scripts/environment.sh"):
        shutil.copy(pathlib.Path(ROOT, name), folder / name)
    (folder / "setup.py").write_text("")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(BACKEND.replace("{port}", str(port)))
    python = folder / "python"  # one without site-packages, as that of a new machine
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    return folder


def environment(clone) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    return {**kept, "PYTHON": str(clone / "python"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "TERM": "xterm",
            "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}  # fmt: skip


def start(clone, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=clone, env=environment(clone), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)  # fmt: skip


def run(clone, *command: str) -> tuple[int, str]:
    with start(clone, *command) as process:
        try:
            output, _ = process.communicate(timeout=200)
        finally:
            process.kill()
        return process.returncode, output


def run_on_a_terminal(clone, *command: str) -> str:
    mine, its = pty.openpty()
    with subprocess.Popen(command, cwd=clone, env=environment(clone), stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        output = b""
        with contextlib.suppress(OSError):  # its end
            while some := os.read(mine, 65536):
                output += some
        os.close(mine)
        assert process.wait(200) == 0, output
    return output.decode()


def test_the_first_command_says_how_a_shell_gets_its_environment(tmp_path) -> None:
    """The scripts in a clone whose .venv is there, with a program that shows what it is told."""
    clone = tmp_path / "a clone"
    (clone / "scripts").mkdir(parents=True)
    (clone / ".venv/bin").mkdir(parents=True)
    for name in ("run_local.sh", "scripts/environment.sh"):
        shutil.copy(pathlib.Path(ROOT, name), clone / name)
    (clone / "setup.py").touch()
    (clone / ".venv/.installed").touch()
    python = clone / ".venv/bin/python"
    python.write_text('#!/bin/sh\necho "$PS_TRAIN_ACTIVATE $@"\n')
    python.chmod(0o755)

    def told(folder: pathlib.Path, **variables: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        return subprocess.check_output([clone / "run_local.sh", "-x"], text=True, cwd=folder, env={**kept, **variables})

    assert told(clone) == "source .venv/bin/activate -m ps_train -x\n"
    elsewhere = shlex.split(told(tmp_path))
    assert elsewhere == ["source", f"{clone}/.venv/bin/activate", "-m", "ps_train", "-x"]
    assert told(clone, VIRTUAL_ENV=str(clone / ".venv")) == " -m ps_train -x\n"  # it is active


@pytest.mark.long
def test_two_tasks_that_start_together_install_once_and_the_next_start_says_nothing_of_it(clone) -> None:
    starts = [start(clone, "./run_ps.sh", "--task_index=0"), start(clone, "./run_worker.sh", "--task_index=1")]
    try:
        outputs = [process.communicate(timeout=200)[0] for process in starts]
    finally:
        for process in starts:
            process.kill()
    assert [process.returncode for process in starts] == [0, 0], outputs
    together = "".join(outputs)
    assert "trains ['--job_name=ps', '--task_index=0']" in together
    assert "trains ['--job_name=worker', '--task_index=1']" in together
    for line in ("making the virtual environment .venv", "installing ps_train into .venv", "Successfully installed"):
        assert together.count(line) == 1, together
    assert "large-1-py3-none-any.whl (3.0 MB)" in together  # a line of pip for each package
    assert "━" not in together and "\r" not in together  # and no bars where there is no terminal
    assert run(clone, "./run_worker.sh") == (0, "trains ['--job_name=worker']\n")
    assert run(clone, "./run_local.sh", "--max_steps=3") == (0, "trains ['--max_steps=3']\n")


@pytest.mark.long
def test_a_terminal_shows_bars_and_a_failed_installation_is_said_and_tried_again(clone) -> None:
    (clone / "broken").touch()
    code, output = run(clone, "./run_local.sh")
    assert code == 2 and "the build is broken" in output
    assert output.splitlines()[-1].startswith("ps_train: error: pip could not install ps_train: see the lines above")
    (clone / "broken").unlink()
    output = run_on_a_terminal(clone, "./run_local.sh")
    assert "━" in output and "3.0 MB" in output and "trains []" in output
    assert "making the virtual environment" not in output
