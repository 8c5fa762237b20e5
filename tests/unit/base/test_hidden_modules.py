"""A user's file with the name of a module that a library needs is named, wherever it strikes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]

NET = """
import statistics, ps_train
assert statistics.OWN
class Net(ps_train.Model):
    def data(self, split, data_dir): ...
    def forward(self, features, training): ...
    def loss(self, outputs, labels): ...
"""


def run(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def write(folder, name, text="OWN = True\n"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.usual(2)
@pytest.mark.parametrize("name", ["queue", "random", "typing", "logging", "socket", "weakref", "argparse", "absl"])
def test_a_command_ends_with_one_line_and_exit_code_2(tmp_path, name):
    path = write(tmp_path, f"{name}.py")
    done = run(tmp_path, "-m", "ps_train", "--num_workers=1", "--max_steps=1")
    whose = "the installed" if name == "absl" else "Python's"
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ps_train: error: {path} hides {whose} module '{name}', which ")
    assert (
        line.endswith(" imports: rename the file, or start in another folder. (help: troubleshoot#it-does-not-start)")
        and not done.stdout
    )


@pytest.mark.parametrize(
    "command",
    [
        ["ps_train", "doctor"],
        ["ps_train", "launch", "--hosts=localhost:ps,localhost:worker"],
        ["ps_train", "run", "--num_workers=1", "script.py"],
        ["ps_train", "firewall"],
        ["ps_train.models.clicks"],
    ],
    ids=" ".join,
)
def test_every_command_names_the_file(tmp_path, command):
    path = write(tmp_path, "dataclasses/__init__.py")
    write(tmp_path, "script.py")
    done = run(tmp_path, "-m", *command)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith(f"ps_train: error: {path} hides Python's module 'dataclasses', which ")


@pytest.mark.parametrize("name", ["numpy", "tensorflow"])
def test_what_tensorflow_needs_is_named_without_its_own_lines(tmp_path, name):
    path = write(tmp_path, f"{name}.py")
    done = run(tmp_path, "-m", "ps_train", "--num_workers=1", "--max_steps=1")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert f"{path} hides the installed module '{name}', which " in done.stderr


def test_a_script_gets_an_exception_that_names_the_file_beside_it(tmp_path):
    path = write(tmp_path, "queue.py")
    script = write(tmp_path, "train.py", "import ps_train\nps_train.fit('net:Net', num_workers=1)\n")
    done = run("/", str(script))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"ps_train.base.errors.ConfigError: {path} hides Python's module 'queue'"
    )


def test_the_folder_of_a_script_that_run_starts_is_watched(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    path = write(tmp_path, "colorsys.py")
    library = write(tmp_path, "site-packages/library.py", "import colorsys\n")
    text = f"import sys; sys.path.append({str(library.parent)!r})\nimport ps_train.base.errors, library\n"
    script = write(tmp_path, "train.py", text)
    done = run(tmp_path / "elsewhere", "-m", "ps_train", "run", str(script))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert f"{path} hides Python's module 'colorsys', which library imports" in done.stderr


def test_the_users_own_imports_find_the_users_files(tmp_path):
    write(tmp_path, "statistics.py")
    write(tmp_path, "test.py", NET)
    write(tmp_path, "queue/notes.txt")  # not a package: Python's module is found
    write(tmp_path, "time.py")  # part of the interpreter, which no file hides
    done = run(
        tmp_path, "-c", "from ps_train.modeling.load_model import load_model; print(load_model('test:Net', {}, {}))"
    )
    assert done.returncode == 0 and "test.Net object" in done.stdout, done.stderr
    done = run(tmp_path, "-m", "ps_train", "--version")
    assert done.returncode == 0, done.stderr


def test_a_folder_that_hides_a_library_on_purpose_is_not_watched(tmp_path):
    chosen = write(tmp_path, "libraries/colorsys.py").parent
    library = write(tmp_path, "site-packages/library.py", "import colorsys\nassert colorsys.OWN\n")
    text = f"import ps_train, sys; sys.path[1:1] = [{str(chosen)!r}, {str(library.parent)!r}]\nimport library"
    done = run(tmp_path, "-c", text)
    assert done.returncode == 0, done.stderr


def test_a_working_directory_that_is_gone_is_not_watched(tmp_path):
    done = run(tmp_path, "-c", f"import os; os.rmdir({str(tmp_path)!r}); import ps_train, random")
    assert done.returncode == 0, done.stderr
