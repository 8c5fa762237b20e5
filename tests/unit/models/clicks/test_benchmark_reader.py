"""The measured speed of the reader."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from ps_train.models.clicks.benchmark_reader import ReadRate
from ps_train.models.clicks.synthetic import write_files


@pytest.mark.long
def test_the_command_says_how_many_lines_a_second_it_reads(tmp_path):
    files = write_files(str(tmp_path / "new"), lines=10_000, seed=3, parts=2)
    program = "import sys\nfrom ps_train.models.clicks.benchmark_reader import measure\n"
    program += "print(measure(sys.argv[1], 0.2).text())"
    done = subprocess.run([sys.executable, "-c", program, str(files[0])], capture_output=True, text=True, timeout=60)
    assert re.fullmatch(
        r"\d+ lines in \d\.\d\d s: \d+ lines/s; \d\.\d\d s of one core: \d+ lines/s/core\n", done.stdout
    )
    assert (
        ReadRate(1000, 0.5, 0.25).text() == "1000 lines in 0.50 s: 2000 lines/s; 0.25 s of one core: 4000 lines/s/core"
    )
