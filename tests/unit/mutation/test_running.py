"""Mutations are made in copies, and what becomes of their tests is told apart."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

from tests.mutation.__main__ import ROOT
from tests.mutation.running import NOTICED

PROGRAM = """
import pathlib, sys
from tests.mutation import running
from tests.mutation.mutation import Mutation

running._import_what_takes_long = lambda: None
root = pathlib.Path(sys.argv[1])
mutations = [
    Mutation(name, "thing.py", "return 1", new, (test,), within)
    for name, new, test, within in [
        ("noticed", "return 2", "tests/test_thing.py", "one"),
        ("not noticed", "return 2", "tests/test_thing.py", "other"),
        ("without a test", "return 2", "tests/test_nothing.py", "one"),
        ("deadly", "import os; os.kill(os.getpid(), 9)", "tests/test_thing.py", "one"),
        ("endless", "import time; time.sleep(60)", "tests/test_thing.py", "one"),
    ]
]
with running.Copies(root, 2, timeout_secs=8.0) as copies:
    print([outcome.outcome for _, outcome in copies.passes(["tests/test_thing.py"])])
    print({mutation.name: verdict.outcome for mutation, verdict in copies.judge(mutations)})
"""
CODE = "def one():\n    return 1\n\n\ndef other():\n    return 1\n"
TEST = "import thing\n\n\ndef test_one():\n    assert thing.one() == 1\n"


@pytest.mark.long
def test_outcomes_are_told_apart_and_the_project_is_not_changed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "thing.py").write_text(CODE)
    (tmp_path / "tests" / "test_thing.py").write_text(TEST)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    checked, judged = run.stdout.splitlines()
    assert checked == "['SURVIVED']"
    outcomes = ast.literal_eval(judged)
    assert outcomes.pop("endless") in NOTICED
    assert outcomes == {
        "noticed": "killed",
        "not noticed": "SURVIVED",
        "without a test": "BROKEN",
        "deadly": "killed (crashed)",
    }
    assert (tmp_path / "thing.py").read_text() == CODE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tests", "thing.py"]
