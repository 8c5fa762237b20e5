"""Signals: the first one saves and stops the whole job, the second one ends the process at once; nothing is left."""

from __future__ import annotations

import ctypes
import os
import pathlib
import platform
import signal
import time

import pytest

from tests.support.long import long
from tests.support.machine.processes import Processes, TestCluster, eventually

ENDLESS = "--max_steps=100000000"
_TGKILL = {"x86_64": 234, "aarch64": 131}.get(platform.machine())
"""Linux's number of the call that sends a signal to one thread."""


@pytest.mark.parametrize(
    ("target", "signum", "update"),
    [
        ("worker:0", signal.SIGTERM, "async"),
        long("worker:1", signal.SIGINT, "sync"),
        long("ps:0", signal.SIGTERM, "sync"),
    ],
)
def test_a_signal_to_any_task_makes_the_chief_save_and_ends_the_whole_job(
    processes: Processes, target: str, signum: int, update: str
) -> None:
    cluster = TestCluster(processes, 1, 2, ENDLESS, f"--update={update}", "--save_secs=3600", "--log_secs=0.2")
    (ps,), workers = cluster.start_all()
    workers[0].wait_for("step ")
    everybody = {"ps:0": ps, "worker:0": workers[0], "worker:1": workers[1]}
    everybody[target].send(signum)
    start = time.monotonic()
    codes = {name: process.wait(50) for name, process in everybody.items()}
    assert time.monotonic() - start < 40
    assert codes == dict.fromkeys(everybody, 128 + signum)
    assert "saved " in workers[0].output
    saved = max(int(path.stem.rpartition("-")[2]) for path in cluster.model_dir.glob("model.ckpt-*.index"))
    assert saved > 0


def test_ctrl_c_on_the_launcher_stops_the_cluster_and_leaves_no_process(processes: Processes) -> None:
    launcher = processes.run(ENDLESS, f"--model_dir={processes.directory}/model", "--log_secs=0.2")
    launcher.wait_for("step ")
    assert len(launcher.descendants()) == 3
    launcher.send(signal.SIGINT)
    assert launcher.wait(50) == 130
    assert "saved " in launcher.output
    assert not launcher.descendants()


def test_a_signal_while_tensorflow_is_imported_ends_the_launcher_before_it_starts_anything(
    processes: Processes,
) -> None:
    launcher = processes.run(ENDLESS, f"--model_dir={processes.directory}/model", new=True)
    maps = pathlib.Path(f"/proc/{launcher.pid}/maps")
    eventually(lambda: "libtensorflow" in maps.read_text(), 60, "the import")
    launcher.send(signal.SIGTERM)
    assert launcher.wait(60) == 143
    assert launcher.output == ""


@pytest.mark.long
def test_a_second_signal_ends_the_launcher_and_its_children_at_once(processes: Processes) -> None:
    launcher = processes.run(ENDLESS, f"--model_dir={processes.directory}/model", "--log_secs=0.2")
    launcher.wait_for("step ")
    ps = min(launcher.descendants())
    os.kill(ps, signal.SIGSTOP)  # the ps will not react to the first signal
    launcher.send(signal.SIGTERM)
    launcher.wait_for("got signal 15")
    launcher.send(signal.SIGTERM)
    assert launcher.wait(20) == 143
    eventually(lambda: not launcher.descendants(), 20, "the children's end")


@pytest.mark.long
@pytest.mark.skipif(_TGKILL is None, reason="the number of tgkill is not known here")
def test_a_signal_that_the_kernel_gives_to_another_thread_of_the_launcher_is_heard(processes: Processes) -> None:
    launcher = processes.run(ENDLESS, f"--model_dir={processes.directory}/model", "--log_secs=0.2")
    launcher.wait_for("step ")
    others = [int(name) for name in os.listdir(f"/proc/{launcher.pid}/task") if int(name) != launcher.pid]
    ctypes.CDLL(None).syscall(_TGKILL, launcher.pid, others[0], int(signal.SIGINT))
    assert launcher.wait(20) == 130


def test_children_die_with_a_launcher_that_is_killed(processes: Processes) -> None:
    launcher = processes.run(ENDLESS, f"--model_dir={processes.directory}/model", "--log_secs=0.2")
    launcher.wait_for("step ")
    assert len(launcher.descendants()) == 3
    launcher.send(signal.SIGKILL)
    eventually(lambda: not launcher.descendants(), 10, "the children's end")


@pytest.mark.long
def test_even_a_child_that_is_stopped_dies_with_a_launcher_that_is_killed(processes: Processes) -> None:
    launcher = processes.run(ENDLESS, f"--model_dir={processes.directory}/model", "--log_secs=0.2")
    launcher.wait_for("step ")
    for pid in launcher.descendants():
        os.kill(pid, signal.SIGSTOP)
    launcher.send(signal.SIGKILL)
    eventually(lambda: not launcher.descendants(), 10, "the children's end")


@pytest.mark.long
def test_a_worker_that_hangs_in_a_step_still_ends_on_a_signal(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 1, ENDLESS, "--log_secs=0.2", "--recovery_timeout_secs=60")
    (ps,), (worker,) = cluster.start_all()
    worker.wait_for("step ")
    ps.send(signal.SIGSTOP)
    worker.send(signal.SIGINT)
    assert worker.wait(12) == 130
