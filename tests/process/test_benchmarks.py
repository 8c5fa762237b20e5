"""One contender of each kind trains the tiny workload in real processes."""

from __future__ import annotations

import math
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import compare, report
from benchmarks.__main__ import main
from benchmarks.calibration import Calibration
from benchmarks.contenders import Setting, contender_of
from benchmarks.errors import ContenderError
from benchmarks.graph_size import Case, observe, programs, whole_job
from benchmarks.peers import handover
from benchmarks.processes import ROOT, PeakMemory, Processes, Program
from benchmarks.run import check_loss, measure, time_to_first_steps
from benchmarks.startup import PHASES, phases_of
from benchmarks.workloads import load
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
    assert 50e6 < measured.ps_peak_bytes < measured.resident_bytes


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
    with pytest.raises(ContenderError, match=r"accumulate=0 on tiny: ours ended with exit code 2; .*: .*accumulate=0"):
        measure(contender_of("ours-async:accumulate=0"), Setting("tiny"), secs=1.0)


STEPS = "i=0; while :; do i=$((i + 100)); echo step $i; sleep 0.1; done"
"""Says steps for ever."""


def torch_python(directory: pathlib.Path, rank0: str, rank1: str) -> str:
    """Returns an interpreter that says that it has PyTorch; as peers it runs these lines of the shell."""
    program = directory / "python"
    program.write_text(
        f"""#!/bin/sh
case "$*" in
-c*) echo PyTorch 9.9 with MKL ;;
*--task_index=0*) {rank0} ;;
*) {rank1} ;;
esac
"""
    )
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("rank0", "rank1", "told"),
    [
        (STEPS, "echo of old; echo boom >&2; exit 3", "worker:1 ended with exit code 3; its last lines: of old | boom"),
        (STEPS, "sleep 1", "worker:1 ended with exit code 0; its last lines: none"),
        ("kill -SEGV $$", STEPS, "worker:0 ended with exit code -11 (Segmentation fault); its last lines: none"),
    ],
    ids=["error", "silent end", "signal"],
)
def test_a_peer_that_fails_ends_the_benchmark_with_one_line_and_nothing_is_stored(
    rank0: str,
    rank1: str,
    told: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(compare, "calibrate", lambda: Calibration(0.0, 0.0, 0.0, 0.0, 0.0))
    python, results = torch_python(tmp_path, rank0, rank1), tmp_path / "results"
    arguments = ["--workloads=tiny", "--contenders=ddp", "--no-check", "--secs=1"]
    assert main([*arguments, f"--torch_python={python}", f"--results={results}"]) == 1
    assert capsys.readouterr().err == f"benchmarks: error: ddp on tiny: {told}\n"
    assert not results.exists()


def test_a_python_without_pytorch_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--contenders=ddp", f"--torch_python={tmp_path}/python", f"--results={tmp_path}"]) == 2
    assert "python is not valid: it cannot import torch.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("imports", "told"),
    [
        ("", "PyTorch is used\n"),
        ("sys.modules['tensorflow'] = sys", "TensorFlow is in a process of PyTorch, where both may fail: "),
    ],
    ids=["without", "with"],
)
def test_a_process_of_pytorch_is_without_tensorflow(imports: str, told: str, tmp_path: pathlib.Path):
    stub = f"import sys\n{imports}\n\ndef set_num_threads(count):\n    sys.exit('PyTorch is used')\n"
    (tmp_path / "torch.py").write_text(stub)
    command = [sys.executable, "-m", "benchmarks.peers.ddp", "--workload=tiny"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(told) and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["tiny", "small", "wide", "large"])
def test_a_network_as_data_has_as_many_parameters_as_the_workload(name: str):
    workload = load(name)
    assert workload.network is not None
    dense = [layer for layer in workload.network.layers if layer.outputs]
    assert sum((layer.inputs + 1) * layer.outputs for layer in dense) == workload.parameters


def test_a_workload_is_handed_over_in_a_file(tmp_path: pathlib.Path):
    workload, path = load("tiny"), str(tmp_path / "tiny.npz")
    handover.write(workload, path)
    found, data = handover.read(path, index=1, count=2), workload.data("train", "")
    assert (found.network, found.batch_size, found.optimizer, found.learning_rate) == (workload.network, 16, "sgd", 0.1)
    np.testing.assert_array_equal(found.features, np.asarray(data.features)[1::2])
    np.testing.assert_array_equal(found.labels, np.asarray(data.labels)[1::2])
    assert len(found.test_features) == len(found.test_labels) == 2048


def test_the_memory_of_all_processes_is_counted_with_that_of_their_children(tmp_path: pathlib.Path):
    code = "import time; held = bytearray(100 << 20); print('ready', flush=True); time.sleep(60)"
    alone, parent = [sys.executable, "-c", code], ["sh", "-c", f'{sys.executable} -c "{code}"; true']
    with Processes(tmp_path) as processes, PeakMemory(processes) as memory:
        for command in (alone, parent):
            running = processes.start(Program("holder", command))
            running.wait_for(lambda line: line.text == "ready", within_secs=30)
        eventually(lambda: memory.resident_bytes > 200 << 20, 10, "a look at both")
        assert memory.resident_bytes < 400 << 20


def test_a_report_has_the_memory_relative_to_the_classic_recipe_and_the_ratios_to_pytorch():
    names = ("ours-sync", "classic-sync", "ddp")
    run = {"steps_per_sec": 1.0, "cpu_secs": {"ps": 0.1, "workers": 0.2}, "ps_peak_bytes": 1e6}
    rates, bytes_of_all = (300.0, 100.0, 200.0), (1e9, 2e9, 3e9)
    runs = {
        name: [run | {"examples_per_sec": rate, "resident_bytes": size}]
        for name, rate, size in zip(names, rates, bytes_of_all, strict=True)
    }
    workload = {
        "about": "x", "parameters": 1, "batch_size": 1, "check_steps": 1, "tolerance": 0.1, "runs": runs,
        "updates": dict.fromkeys(names, "sync"), "losses": {}, "failures": {}, "skipped": {},
    }  # fmt: skip
    machine = {"cpu": "c", "cores": 2, "memory_gib": 1, "kernel": "6", "python": "3", "tensorflow": "2"}
    machine |= {"pytorch": "PyTorch 2.1 with MKL", "torchrec": "TorchRec 1.9.2 with FBGEMM 1.9.0"}
    options = {"repeats": 1, "secs": 1.0, "num_ps": 1, "num_workers": 2}
    text = report.markdown_of(
        {"date": "d", "machine": machine, "load_before": 0.0, "options": options, "workloads": {"x": workload}}
    )
    assert "TensorFlow 2, PyTorch 2.1 with MKL, TorchRec 1.9.2 with FBGEMM 1.9.0;" in text
    ours = next(line for line in text.splitlines() if line.startswith("| ours-sync"))
    assert [cell.strip() for cell in ours.split("|")][-4:-2] == ["1000", "0.50"]
    assert "Examples/s, relative to ddp: ours-sync 1.50, classic-sync 0.50." in text


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
