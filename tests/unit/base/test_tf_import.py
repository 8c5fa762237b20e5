"""The import of TensorFlow: the packages that come with it, and its output."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

PACKAGES = {
    "tensorflow/__init__.py": """
import importlib, os
os.write(2, b"chatter\\n")
try:
    importlib.import_module("keras.src.optimizers")
    has_keras = True
except ImportError:
    has_keras = False
if os.environ.get("BROKEN"):
    raise ImportError("a library is missing")
""",
    "keras/__init__.py": "from keras import beginning\nfrom keras.src import optimizers\n",
    "keras/beginning.py": "",
    "keras/src/__init__.py": "",
    "keras/src/optimizers.py": "",
}
"""As TensorFlow's own, but quick."""

BEGIN = "import sys; from ps_train.base.tf_import import import_tensorflow; "
IMPORT = "import_tensorflow(verbose=False); "
TELL = "print(sorted(name for name in sys.modules if name.partition('.')[0] == 'keras')); "


def run(program: str, directory: pathlib.Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """In a new interpreter; with a directory, that is where it finds TensorFlow."""
    root = str(pathlib.Path(__file__).parents[3])
    path = [str(directory), root] if directory else [root]
    program = f"import sys; sys.path[:0] = {path}; {program}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, env=environ)


@pytest.fixture
def packages(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, text in PACKAGES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.long
def test_tensorflow_imports_keras_when_it_is_used_and_not_before() -> None:
    use = "import tensorflow as tf; print(tf.optimizers.SGD.__name__); import keras; "
    same = "print(tf.keras.layers.Dense is keras.layers.Dense)"
    ended = run(BEGIN + IMPORT + TELL + use + same)
    assert ended.stdout.splitlines() == ["[]", "SGD", "True"], ended.stderr


def test_nothing_is_left_of_a_keras_that_was_half_imported_and_it_can_be_imported(packages: pathlib.Path) -> None:
    ended = run(
        BEGIN + IMPORT + TELL + "import tensorflow, keras; print(tensorflow.has_keras, keras.optimizers)", packages
    )
    assert ended.returncode == 0, ended.stderr
    none, later = ended.stdout.splitlines()
    assert none == "[]" and later.startswith("False <module 'keras.src.optimizers'")


def test_a_keras_that_was_there_before_stays(packages: pathlib.Path) -> None:
    ended = run("import keras; " + BEGIN + IMPORT + "import tensorflow; print(tensorflow.has_keras)", packages)
    assert ended.stdout == "True\n", ended.stderr


def test_what_the_import_prints_is_kept_back_unless_it_fails_or_is_asked_for(packages: pathlib.Path) -> None:
    assert run(BEGIN + IMPORT, packages).stderr == ""
    assert run(BEGIN + "import_tensorflow(verbose=True)", packages).stderr == "chatter\n"
    failed = run(BEGIN + IMPORT, packages, BROKEN="1")
    assert failed.returncode == 1
    assert failed.stderr.startswith("chatter\n") and "ImportError: a library is missing" in failed.stderr


VERBS = {
    "predict": ["--export_dir=ex", "--data=d.csv", "--to=o.csv"],
    "compare": ["a", "b", "--data=d.csv"],
    "delta": ["a", "b", "--to=c"],
    "apply": ["a", "b", "--to=c"],
    "doctor": [],
    "tune": ["--objective=loss", "--space=learning_rate:0.1..1"],
    "run": ["script.py"],
    "run whole": ["--num_ps=1", "--num_workers=1", "script.py"],
    "": ["--max_steps=1", "--dry_run", "--warm_start=a"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_keeps_back_what_tensorflow_says_of_a_machine_without_a_gpu(
    verb: str, tmp_path: pathlib.Path
) -> None:
    told = tmp_path / "told"
    code = f"import os; open({str(told)!r}, 'w').write(os.environ.get('TF_CPP_MIN_LOG_LEVEL', 'unset')); os._exit(7)"
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "tensorflow.py").write_text(code)
    (tmp_path / "script.py").write_text("import tensorflow")
    command = [sys.executable, "-m", "ps_train", *verb.split()[:1], *VERBS[verb]]
    environ = {"PYTHONPATH": f"{tmp_path}/packages:{pathlib.Path(__file__).parents[3]}"}
    ended = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100)
    assert told.read_text() == "3", ended.stderr
