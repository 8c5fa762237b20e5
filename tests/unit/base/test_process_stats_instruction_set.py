"""The line about a CPU's instructions for numbers of 16 bits."""

from __future__ import annotations

import pathlib

import pytest

from ps_train.base.process_stats import instruction_set_line, instructions

OLD, NEWER = "fpu sse4_2 avx2 avx512f", "fpu avx512f avx512_bf16 amx_bf16 amx_tile amx_int8"


def cpuinfo(path: pathlib.Path, flags: str) -> pathlib.Path:
    file = path / "cpuinfo"
    file.write_text(f"processor\t: 0\nmodel name\t: a CPU\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: amx_fp16\n")
    return file


def test_the_flags_of_the_first_core_are_read(tmp_path: pathlib.Path) -> None:
    assert instructions(cpuinfo(tmp_path, NEWER)) == ["amx_bf16", "avx512_bf16"]
    assert instructions(cpuinfo(tmp_path, OLD)) == []
    assert instructions(tmp_path / "missing") == []


@pytest.mark.parametrize(("dtype", "flags", "is_slow"), [
    ("bfloat16", NEWER, False), ("float16", NEWER, True), ("bfloat16", OLD, True), ("float16", "avx512_fp16", False),
])  # fmt: skip
def test_the_line_names_the_instructions_and_warns_where_the_dtype_has_none(tmp_path, dtype, flags, is_slow) -> None:
    line = instruction_set_line(dtype, cpuinfo(tmp_path, flags))
    assert line.startswith(f"compute_dtype={dtype}: this CPU ") and "\n" not in line
    assert ("may be slower than float32" in line) == is_slow
    assert all(name in line for name in ("amx_bf16", "amx_fp16", "avx512_bf16", "avx512_fp16"))


def test_the_whole_line(tmp_path: pathlib.Path) -> None:
    assert instruction_set_line("bfloat16", cpuinfo(tmp_path, NEWER)) == (
        "compute_dtype=bfloat16: this CPU has amx_bf16, avx512_bf16, lacks amx_fp16, avx512_fp16"
    )
    assert instruction_set_line("float16", cpuinfo(tmp_path, OLD)) == (
        "compute_dtype=float16: this CPU has none of amx_bf16, amx_fp16, avx512_bf16, avx512_fp16; without amx_fp16 or "
        "avx512_fp16 it may be slower than float32"
    )
