"""The soak test itself, with too few calls for a verdict on memory; tests/unit/test_soak.py tests the verdict."""

from __future__ import annotations

import re
import sys

import pytest

from tests.support.clusters.refusals import refusing
from tests.support.machine.processes import Processes

CALLS = 2000


@pytest.mark.timeout(300)
@pytest.mark.long
def test_a_short_soak_samples_every_process_and_counts_refused_calls(processes: Processes, tmp_path):
    environment = refusing(tmp_path, bits=15)
    command = [sys.executable, "-m", "tests.trials.soak", f"--calls={CALLS}", "--sample_secs=0.2"]
    soak = processes.command(command, env=environment)
    assert soak.wait(240) == 0, soak.output
    sampled = re.findall(r"^(\d+) of 2000 calls: ps:0 [\d.]+ MiB, worker:0 [\d.]+ MiB, launcher ", soak.output, re.M)
    assert sampled and all(0 < int(calls) < CALLS for calls in sampled), soak.output
    (ended,) = [line for line in soak.lines if line.startswith("exit code 0, global_step 2000 of 2000, ")]
    refused = re.search(r"(\d+) calls? refused", ended)
    assert refused is not None and int(refused[1]) > 5 and "0 processes left over" in ended
    assert any(line.startswith("flatness is not judged") for line in soak.lines)
    assert processes.orphans() == {}
