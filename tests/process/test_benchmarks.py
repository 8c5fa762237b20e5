"""One contender of each kind trains the tiny workload in real processes."""

from __future__ import annotations

import math
import os
import pathlib
import signal
import sys

import pytest

from benchmarks.contenders import Setting, contender_of
from benchmarks.errors import ContenderError
from benchmarks.graph_size import Case, observe, programs, whole_job
from benchmarks.processes import Processes, Program
from benchmarks.run import check_loss, measure, time_to_first_steps
from benchmarks.startup import PHASES, phases_of
from tests.support.long import long
from tests.support.machine.proc import command_of, descendants, is_alive
from tests.support.machine.processes import eventually


@pytest.mark.parametrize("name", [long("ours-sync"), long("classic-sync"), long("pss-100"), long("single-2x1")])
def test_a_contender_learns_what_can_be_learned(name: str):
    loss = check_loss(contender_of(name), Setting("tiny", max_steps=100), within_secs=90)
    assert 0.3 < loss < 0.8, f"three classes begin at {math.log(3):.2f}, and a fifth of the labels is random"


@pytest.mark.long
def test_a_measured_run_counts_examples_cpu_and_memory_and_leaves_no_process():
    contender = contender_of("ours-async")
    measured = measure(contender, Setting("tiny"), secs=1.0)
    assert measured.examples_per_sec == pytest.approx(16 * measured.steps_per_sec)
    assert 0 < measured.cpu_secs["ps"] < measured.cpu_secs["workers"] * 10
    assert measured.ps_peak_bytes > 50e6


@pytest.mark.long
def test_start_up_ends_with_the_first_step_of_every_worker():
    assert 0.5 < time_to_first_steps(contender_of("classic-async"), Setting("tiny")) < 60


@pytest.mark.long
def test_the_phases_of_a_start_follow_each_other_until_the_first_step():
    (program,) = programs(Case("tables", 3), "ours", max_steps=1 << 30)
    found = phases_of(program)
    assert list(found) == list(PHASES) and all(secs > 0 for secs in found.values())


@pytest.mark.parametrize(
    ("model", "engine"), [long("tables", "classic"), long("columns", "ours"), long("products", "single")]
)
def test_a_run_of_a_graph_of_any_size_is_observed_after_its_first_step(model: str, engine: str):
    measured = observe(Case(model, 3), engine, secs=2.0)
    assert 1 < measured["first_step_cpu"] < 60 and 1 < measured["first_step"] < 60
    assert measured["steps_per_sec"] > 1 and measured["chief_mib"] > 100
    assert (measured["ps_mib"] > 100) == (engine != "single")


@pytest.mark.long
def test_a_whole_short_job_is_measured_until_its_last_process_has_ended():
    measured = whole_job(Case("variables", 3), "ours")
    assert 1 < measured["job"] < 60 and measured["job_cpu"] > 1


def test_a_contender_that_fails_is_an_error_with_its_last_lines():
    with pytest.raises(ContenderError, match=r"ours ended; its last lines:\n(.*\n)*.*accumulate=0"):
        measure(contender_of("ours-async:accumulate=0"), Setting("tiny"), secs=1.0)


@pytest.mark.long
def test_processes_end_with_all_their_descendants(tmp_path: pathlib.Path):
    with Processes(tmp_path) as processes:
        for program in contender_of("ours-async").programs(Setting("tiny")):
            launcher = processes.start(program)
        launcher.wait_for(lambda line: line.text.startswith("step "), within_secs=60)
        pids = [pid for group in processes.pids().values() for pid in group]
        assert len(pids) == 4, "the launcher, a ps and two workers"
        assert len(processes.pids()["ps"]) == 1
    assert not any(map(is_alive, pids))


def singles_of(pid: int) -> list[int]:
    """Its two contenders' processes, when both are there; before them come those of the calibration."""
    found = [child for child in descendants(pid) if "benchmarks.peers.single" in command_of(child)]
    return found if len(found) == 2 else []


@pytest.mark.long
def test_a_signal_ends_the_benchmark_and_its_processes_at_once(tmp_path: pathlib.Path):
    command = [sys.executable, "-m", "benchmarks", "--workloads=tiny", "--contenders=single-2x1", "--no-check"]
    with Processes(tmp_path) as processes:
        benchmark = processes.start(Program("benchmarks", [*command, "--secs=300", f"--results={tmp_path}"]))
        children = eventually(lambda: singles_of(benchmark.pid), 90, "two processes of the contender")
        os.kill(benchmark.pid, signal.SIGTERM)
        eventually(lambda: not any(map(is_alive, [benchmark.pid, *children])), 10, "the end of all processes")
