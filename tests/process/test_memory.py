"""A ps needs memory for its tables and what their optimizers keep, and little more."""

from __future__ import annotations

import sys

import pytest

from tests.support.machine.processes import Processes

TRAINING = """
import pathlib
from benchmarks.workloads.big import Big
from tests.support.clusters.cluster import InProcessCluster

def peak():  # getrusage would begin with that of who started this process
    return int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024

def train(rows):
    Big.train_examples = 4096
    cluster = InProcessCluster(Big(rows), 1, 1, optimizer="adagrad", batch_size=128)
    cluster.start()
    cluster.train(3)
    return cluster

small = train(20_000)
before = peak()
big = train(8_000_000)
print("needed", peak() - before)
"""


@pytest.mark.long
def test_a_table_is_initialised_and_trained_in_little_more_than_its_own_room(processes: Processes) -> None:
    needed = processes.command([sys.executable, "-c", TRAINING])
    assert needed.wait(120) == 0, needed.output
    (line,) = [line for line in needed.lines if line.startswith("needed ")]
    share = 2 * 4 * 8_000_000 * 16  # large against what a session needs in any case
    assert share < int(line.split()[1]) < 1.3 * share
