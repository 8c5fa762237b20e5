"""Description of the machine and of its PyTorch."""

from __future__ import annotations

import sys

from benchmarks import machine


def test_where_there_is_no_pytorch_nothing_is_said_of_it(tmp_path):
    assert machine.pytorch(str(tmp_path / "none")) == ""
    (tmp_path / "torch.py").write_text("raise ImportError")
    assert machine.pytorch(_python_that_finds(tmp_path)) == ""
    (tmp_path / "torch.py").write_text(
        "import types\n__version__ = '1.2'\n"
        "backends = types.SimpleNamespace(mkl=types.SimpleNamespace(is_available=lambda: False))\n"
    )
    assert machine.pytorch(_python_that_finds(tmp_path)) == "PyTorch 1.2 without MKL"


def _python_that_finds(directory):
    program = directory / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={directory} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_the_instructions_for_numbers_of_16_bits_are_named():
    here = machine.machine()
    assert isinstance(here["instructions"], str)
    assert machine.text({**here, "instructions": "amx_bf16"}).endswith(", amx_bf16")
    assert machine.text({**here, "instructions": ""}).endswith("none of amx_bf16, amx_fp16, avx512_bf16, avx512_fp16")
    del here["instructions"]
    assert "amx" not in machine.text(here)
