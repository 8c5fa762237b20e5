"""The end of a program is told once, with the exception that was the reason."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from ps_train.compat.scripts.program_end import tell_at_the_end

def finish(error):
    with ThreadPoolExecutor() as pool:     # refused when it is too late
        print("ended by", pool.submit(repr, error).result(), flush=True)
    return {code}

tell_at_the_end(finish)
{end}
"""


@pytest.mark.parametrize(
    ("code", "end", "found", "shown"),
    [
        (0, "", 0, "ended by None\n"),
        (3, "", 3, "ended by None\n"),
        (0, "raise ValueError(1)", 1, "ended by ValueError(1)\n"),
        (0, "sys.exit(0)", 0, "ended by None\n"),
    ],
)
def test_a_program_ends_with_what_waits_for_it(code, end, found, shown):
    text = PROGRAM.format(code=code, end=end)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert [done.returncode, done.stdout] == [found, shown]
