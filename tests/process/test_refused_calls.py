"""No job ends because TensorFlow refuses a call, and nothing gets lost by it (docs/decisions/0019-refused-calls.md)."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from tests.support.long import long
from tests.support.processes import ROOT
from tests.support.refusals import refusing


def trained(tmp_path: pathlib.Path, bits: int, *cases: str) -> list[dict]:
    command = [sys.executable, "-m", "tests.support.refused_calls", *cases]
    done = subprocess.run(
        command, env=refusing(tmp_path, bits), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "mode, cases",
    [
        ("async", ["1:1:1", "2:1:2"]),
        ("bounded", ["2:1:2"]),
        ("sync", ["2:1:1"]),
        # Several workers: a call that its own worker refuses may hang here, where nothing watches it (`call_watch.py`).
        long("async", ["2:2:2", "1:3:4"]),
        long("bounded", ["1:2:1", "2:2:4"]),
        long("sync", ["2:2:1", "1:2:2"]),
    ],
)
def test_every_step_is_made_once_and_of_the_batch_that_was_next(tmp_path, mode: str, cases: list[str]) -> None:
    found = trained(tmp_path, 11, *[f"{mode}:{case}" for case in cases])
    for one in found:
        assert one["step"] == one["expected"], one
        assert one.get("difference", 0) < 1e-5, one
    assert len(found) == len(cases) and sum(one["refused"] for one in found) > 5, found


def test_records_of_a_ps_are_written_once(tmp_path) -> None:
    (found,) = trained(tmp_path, 14, "board")
    assert found["step"] == found["expected"] and found["refused"] > 5, found
