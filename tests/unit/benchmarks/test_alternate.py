"""Contenders by turns: how they are woken and frozen, and what is made of their rates."""

from __future__ import annotations

import sys
import time

from benchmarks import alternate
from benchmarks.processes import Processes, Program
from benchmarks.run import steady_rate
from tests.support.machine.proc import stat_of
from tests.support.machine.processes import eventually

COUNTER = """
import itertools, subprocess, sys, time
if len(sys.argv) == 1:
    sys.exit(subprocess.run([sys.executable, "-c", open("counter.py").read(), "child"]).returncode)
for step in itertools.count():
    print("step", 10 * step, flush=True)
    time.sleep(0.02)
"""


def test_a_frozen_run_and_its_descendants_stand_still_and_a_woken_one_is_measured(tmp_path):
    (tmp_path / "counter.py").write_text(COUNTER)
    with Processes(tmp_path, endless=True) as processes:
        speaker = processes.start(Program("counter", [sys.executable, "counter.py"]))
        speaker.wait_for(lambda line: line.text == "step 20", 30)
        processes.freeze()
        pids = processes.pids()["workers"]
        assert len(pids) == 2
        eventually(lambda: all(stat_of(pid)[0] == "T" for pid in pids), what="that all stand still")
        processes.wake()
        rate = steady_rate(processes, [speaker], time.monotonic() + 0.1, 0.5)
        assert 50 < rate < 501
    eventually(lambda: not any(map(stat_of, pids)), what="their end")


def test_rates_are_compared_with_the_first_contender_in_the_same_round():
    record = {
        "date": "2026-12-01",
        "machine": {"cpu": "a CPU", "cores": 2, "memory_gib": 4, "kernel": "6", "python": "3", "tensorflow": "2"},
        "load_before": 0.5,
        "options": {"repeats": 3, "secs": 8.0, "num_ps": 1, "num_workers": 2},
        "workloads": {"small": {"single-2x1": [100.0, 200.0, 400.0], "ours-sync": [50.0, 150.0, 320.0]}},
    }
    (row,) = [line for line in alternate.report_of(record).splitlines() if "ours-sync" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "ours-sync", "150 (50.0 - 320)", "0.750 (0.500 - 0.800)",
    ]  # fmt: skip
