"""What a result was measured on: CPU, cores, memory and versions; nothing that tells whose machine it is."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import platform
import re
import subprocess
import sys

from benchmarks.errors import ContenderError, UsageError
from ps_train.base.process_stats import INSTRUCTIONS, instructions


def machine(torch_python: str = "") -> dict[str, str | int]:
    """Returns the description.

    Args:
      torch_python: the interpreter whose PyTorch is measured, too.

    Raises:
      UsageError: another interpreter than this one was named, and has no PyTorch.
    """
    has_pytorch = pytorch(torch_python) if torch_python else ""
    if torch_python and torch_python != sys.executable and not has_pytorch:
        raise UsageError(f"--torch_python={torch_python} is not valid: it cannot import torch.")
    return {
        "cpu": _cpu_model(),
        "instructions": ", ".join(instructions()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "tensorflow": importlib.metadata.version("tensorflow"),
        "pytorch": has_pytorch,
        "torchrec": torchrec(torch_python) if has_pytorch else "",
    }


def text(of: dict[str, str | int]) -> str:
    found = (
        f"{of['cpu']}, {of['cores']} cores, {of['memory_gib']} GiB, Linux {of['kernel']}, Python {of['python']}, "
        f"TensorFlow {of['tensorflow']}"
    )
    if "instructions" in of:  # an older record is without
        found += f", {of['instructions'] or 'none of ' + ', '.join(INSTRUCTIONS)}"
    return ", ".join([found, *(str(of[name]) for name in ("pytorch", "torchrec") if of.get(name))])


def pytorch(python: str) -> str:
    """Returns the PyTorch of that interpreter and whether it multiplies by MKL, without which it is several times
    slower; "" where there is none.

    Raises:
      ContenderError: its import ends in another way than with an ImportError.
    """
    has_mkl = "'with' if torch.backends.mkl.is_available() else 'without'"
    return _said_by(python, f"import torch; print('PyTorch', torch.__version__, {has_mkl}, 'MKL')")


def torchrec(python: str) -> str:
    """Returns the TorchRec of that interpreter and the FBGEMM that it computes with; "" where there is none."""
    return _said_by(
        python,
        "from importlib.metadata import distributions; "
        "found = {one.name.lower().replace('_', '-'): one.version for one in distributions()}; "
        "rec, fbgemm = found.get('torchrec'), found.get('fbgemm-gpu-cpu') or found.get('fbgemm-gpu'); "
        "print(f'TorchRec {rec} with FBGEMM {fbgemm}' if rec else '')",
    )


def _said_by(python: str, program: str) -> str:
    try:
        asked = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    lines = asked.stderr.strip().splitlines() or [""]
    if asked.returncode and not lines[-1].startswith(("ImportError", "ModuleNotFoundError")):
        raise ContenderError(f"{python} cannot import torch: exit code {asked.returncode}; its last line: {lines[-1]}")
    return "" if asked.returncode else asked.stdout.strip()


def load_average() -> float:
    """How busy the machine is with anything, over the last minute."""
    return round(os.getloadavg()[0], 2)


def _cpu_model() -> str:
    found = re.search(r"^model name\s*: (.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()
