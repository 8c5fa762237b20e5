"""Makes TensorFlow's tasks refuse calls, thousands of times as often as they do by chance.

environment = refusing(tmp_path, bits=16)        # for a child process; skips the test where there is no compiler
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

_SOURCE = pathlib.Path(__file__).with_name("narrow_random_device.cc")


def refusing(directory: pathlib.Path, bits: int) -> dict[str, str]:
    """The environment of a process whose calls begin with one of 2**bits ids."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no C++ compiler to build the library that makes request ids collide")
    library = directory / "narrow_random_device.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)], check=True)
    return {**os.environ, "LD_PRELOAD": str(library), "NARROW_BITS": str(bits)}
