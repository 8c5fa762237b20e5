"""`python -m benchmarks breakdown`: where the CPU time of ps and workers goes, by `perf`, contender by contender.

Needs the program `perf` and the right to use it; skipped with a reason otherwise.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import tempfile

from benchmarks import machine
from benchmarks.contenders import Contender, Setting, contenders_of, reason_to_skip, torch_python_for
from benchmarks.errors import SkippedError
from benchmarks.processes import Processes
from benchmarks.run import settle
from benchmarks.workloads import workload_class

_LINES = 30


def run(options: argparse.Namespace) -> int:
    if shutil.which("perf") is None:
        raise SkippedError("breakdown needs the program perf")
    contenders = contenders_of(options.contenders)
    here = machine.machine(torch_python_for(contenders, options.torch_python))
    for name in options.workloads:
        for contender in contenders:
            if reason := reason_to_skip(contender, workload_class(name), here):
                print(f"{contender.name} is skipped on {name}: {reason}")
                continue
            setting = Setting(
                name, num_ps=options.num_ps, num_workers=options.num_workers, torch_python=options.torch_python
            )
            for group, text in profile(contender, setting, options.secs).items():
                print(f"## {name}, {contender.name}, {group}\n\n{text}\n")
    return 0


def profile(contender: Contender, setting: Setting, secs: float) -> dict[str, str]:
    """Group ("ps", "workers") to perf's list of symbols by their share of the group's CPU time."""
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless=True) as processes:
        for program in contender.programs(setting):
            processes.start(program)
        settle(processes.running[-1], workload_class(setting.workload))
        groups = {group: pids for group, pids in processes.pids().items() if pids}
        files = {group: pathlib.Path(directory) / f"{group}.perf" for group in groups}
        recorders = [_record(pids, files[group], secs) for group, pids in groups.items()]
        for recorder in recorders:
            recorder.wait()
        return {group: _report(path) for group, path in files.items()}


def _record(pids: list[int], path: pathlib.Path, secs: float) -> subprocess.Popen[bytes]:
    command = ["perf", "record", "-F", "499", "-o", str(path), "-p", ",".join(map(str, pids)), "--", "sleep", f"{secs}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _report(path: pathlib.Path) -> str:
    command = ["perf", "report", "-i", str(path), "--stdio", "--sort", "dso,symbol"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SkippedError(f"perf cannot be used here: {found.stderr.strip().splitlines()[-1]}")
    lines = [line for line in found.stdout.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(line[:140].rstrip() for line in lines[:_LINES])
