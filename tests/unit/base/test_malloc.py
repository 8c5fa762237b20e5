"""Settings of glibc's malloc, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from ps_train.base import malloc

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

if sys.argv[1] == "return":
    assert malloc.return_large_blocks({})
bytearray(20 << 20)  # freed at once: from here on glibc would keep blocks up to this size
blocks, small = [], []
for _ in range(20):
    blocks.append(bytearray(8 << 20))
    small.append(bytearray(60_000))  # between them, so that a heap could not shrink
before = resident()
blocks.clear()
print(before - resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_large_blocks_are_returned_when_they_are_freed() -> None:
    kept, returned = (
        int(subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True).stdout)
        for how in ("keep", "return")
    )
    assert kept < 20 << 20 and returned > 140 << 20
