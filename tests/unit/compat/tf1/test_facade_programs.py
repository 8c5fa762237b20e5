"""Programs that use the names of TensorFlow 1 which users ask for; a page lists them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.compat.tf1_names import PROGRAMS, ROWS, page
from tests.support.machine.processes import ROOT

PROCESSES = 2


@pytest.mark.long
@pytest.mark.usual(1)
@pytest.mark.parametrize("number", range(PROCESSES))
def test_a_program_of_each_row_runs_and_checks_its_numbers(tmp_path, number):
    pytest.importorskip("tf_keras")
    programs = [row.program for row in ROWS[number::PROCESSES]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_CONFIG", None)
    environment.pop("TF_USE_LEGACY_KERAS", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.compat.tf1_names", *programs],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert list(found) == programs
    assert "\n".join(found.values()).strip() == ""


def test_every_program_is_in_the_list():
    assert sorted(row.program for row in ROWS) == sorted(path.stem for path in PROGRAMS.glob("*.py"))


def test_the_page_has_the_whole_list():
    assert (PROGRAMS.parent / "tf1_names.md").read_text() == page(), "its module says how the page is written"
