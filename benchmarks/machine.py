"""What a result was measured on: CPU, cores, memory and versions; nothing that tells whose machine it is."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import platform
import re
import subprocess

from ps_train.base.process_stats import INSTRUCTIONS, instructions


def machine(torch_python: str = "") -> dict[str, str | int]:
    """`torch_python`: the interpreter whose PyTorch is measured, too."""
    return {
        "cpu": _cpu_model(),
        "instructions": ", ".join(instructions()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "tensorflow": importlib.metadata.version("tensorflow"),
        "pytorch": pytorch(torch_python) if torch_python else "",
    }


def text(of: dict[str, str | int]) -> str:
    found = (
        f"{of['cpu']}, {of['cores']} cores, {of['memory_gib']} GiB, Linux {of['kernel']}, Python {of['python']}, "
        f"TensorFlow {of['tensorflow']}"
    )
    if "instructions" in of:  # an older record is without
        found += f", {of['instructions'] or 'none of ' + ', '.join(INSTRUCTIONS)}"
    return f"{found}, {of['pytorch']}" if of.get("pytorch") else found


def pytorch(python: str) -> str:
    """The PyTorch of that interpreter and whether it multiplies by MKL, without which it is several times slower; ""
    where there is none, or no TensorFlow, which the workloads import."""
    has_mkl = "'with' if torch.backends.mkl.is_available() else 'without'"
    program = "import torch, importlib.util as util; assert util.find_spec('tensorflow'); "
    program += f"print('PyTorch', torch.__version__, {has_mkl}, 'MKL')"
    try:
        asked = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def load_average() -> float:
    """How busy the machine is with anything, over the last minute."""
    return round(os.getloadavg()[0], 2)


def _cpu_model() -> str:
    found = re.search(r"^model name\s*: (.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()
