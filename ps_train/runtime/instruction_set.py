"""The instructions of this machine's CPU for numbers of 16 bits.

    instruction_set_line("bfloat16")        # "compute_dtype=bfloat16: this CPU has avx512_bf16, lacks amx_bf16, ..."

Standard library only.
"""

from __future__ import annotations

import pathlib

INSTRUCTIONS = ("amx_bf16", "amx_fp16", "avx512_bf16", "avx512_fp16")
"""Names in /proc/cpuinfo: matrix and vector instructions for bfloat16 and float16."""

_NEEDED = {"bfloat16": ("amx_bf16", "avx512_bf16"), "float16": ("amx_fp16", "avx512_fp16")}
_CPUINFO = pathlib.Path("/proc/cpuinfo")


def instructions(cpuinfo: pathlib.Path = _CPUINFO) -> list[str]:
    """Returns those of INSTRUCTIONS that the first core has; none if the file cannot be read."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return [name for name in INSTRUCTIONS if name in flags]


def instruction_set_line(dtype: str, cpuinfo: pathlib.Path = _CPUINFO) -> str:
    """Returns a line about the CPU's instructions for computing in `dtype`, "bfloat16" or "float16"."""
    found = instructions(cpuinfo)
    missing = ", ".join(name for name in INSTRUCTIONS if name not in found)
    has = f"has {', '.join(found)}" + (f", lacks {missing}" if missing else "") if found else f"has none of {missing}"
    line = f"compute_dtype={dtype}: this CPU {has}"
    if any(name in found for name in _NEEDED[dtype]):
        return line
    return f"{line}; without {' or '.join(_NEEDED[dtype])} it may be slower than float32"
