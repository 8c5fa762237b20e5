"""What is installed and documented is what works."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from ps_train.config import flags
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import ROOT, Processes

PRESETS = sorted((ROOT / "flags").glob("*.flags"))


def test_the_wheel_runs_outside_of_the_clone(processes: Processes) -> None:
    source = processes.directory / "source"
    ignored = shutil.ignore_patterns(".venv*", ".git", "runs", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--wheel-dir", "wheels", "./source"], cwd=processes.directory, check=True
    )
    (wheel,) = (processes.directory / "wheels").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    folder = ROOT / "ps_train" / "observe" / "status" / "page_files"
    pages = [f"ps_train/docs/{page.name}" for page in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md")]
    page_files = [str(path.relative_to(ROOT)) for path in folder.iterdir()]
    assert len(page_files) == 8
    for needed in (
        "ps_train/py.typed",
        "ps_train/data/digits.npz",
        "ps_train/data/digits.LICENSE",
        *page_files,
        *pages,
    ):
        assert needed in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ps_train"}, "nothing else is installed"
    installed = processes.directory / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(installed), str(wheel)], check=True)
    elsewhere = processes.directory / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(source)
    activate = "source .venv/bin/activate"  # as run_local.sh says it
    environment = {**os.environ, "PYTHONPATH": str(installed), "PS_TRAIN_ACTIVATE": activate}
    shown = subprocess.run(
        "python -m ps_train help README | head -1",
        shell=True, cwd=elsewhere, env={**environment, "PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (shown.stdout, shown.stderr) == ("# ps_train\n", "")
    command = [sys.executable, "-m", "ps_train", "--max_steps=50", "--num_workers=1"]
    run = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout
    assert run.stdout.splitlines()[-1].endswith(f"before other commands:  {activate}")
    (result,) = elsewhere.glob("runs/digits-async-*/result.json")
    assert json.loads(result.read_text())["global_step"] == 50


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.name)
def test_every_preset_is_understood_and_commented(path: pathlib.Path) -> None:
    hosts = "--ps_hosts=" in path.read_text()  # without, it is a whole job on one machine
    parsed = flags.parse([f"--flagfile={path}", *(["--job_name=worker", "--task_index=0"] if hosts else [])], {})
    if hosts:
        assert parsed.job.worker_hosts and parsed.job.model_dir
    assert path.read_text().startswith("# ")


def test_there_are_the_presets_that_are_promised() -> None:
    promised = {"local_async.flags", "local_sync.flags", "two_hosts.flags", "criteo.flags"}
    assert promised <= {path.name for path in PRESETS}


@pytest.mark.long
def test_the_scripts_start_the_processes_of_a_flagfile(processes: Processes) -> None:
    ports = free_ports(3)
    hosts = [f"--ps_hosts=localhost:{ports[0]}", f"--worker_hosts=localhost:{ports[1]},localhost:{ports[2]}"]
    common = [f"--flagfile={ROOT}/flags/local_sync.flags", "--max_steps=100", f"--model_dir={processes.directory}/m"]
    everybody = [
        processes.command([str(ROOT / script), *common, *hosts, f"--task_index={index}"])
        for script, index in (("run_ps.sh", 0), ("run_worker.sh", 0), ("run_worker.sh", 1))
    ]
    assert [process.wait(60) for process in everybody] == [0, 0, 0], everybody[1].output
    result = json.loads((processes.directory / "m" / "result.json").read_text())
    assert result["global_step"] == 100 and result["update"] == "sync"


@pytest.mark.long
def test_the_example_that_the_readme_names_trains(processes: Processes) -> None:
    assert "](examples/clicks.py)" in (ROOT / "README.md").read_text()
    run = processes.run(
        "--model=examples.clicks:Clicks", "--model_arg=hidden=32", f"--model_dir={processes.directory}/m"
    )
    assert run.wait(60) == 0, run.output
    metrics = json.loads((processes.directory / "m" / "result.json").read_text())["metrics"]
    assert 0.85 < metrics["auc"] < 1


@pytest.mark.long
def test_the_launcher_runs_a_flagfile_with_host_lists(processes: Processes) -> None:
    ports = free_ports(2)
    hosts = [f"--ps_hosts=localhost:{ports[0]}", f"--worker_hosts=localhost:{ports[1]}"]
    preset = f"--flagfile={ROOT}/flags/local_async.flags"
    run = processes.run(preset, *hosts, "--job_name=local", "--max_steps=60", f"--model_dir={processes.directory}/m")
    assert run.wait(60) == 0, run.output
    both = processes.run(preset, *hosts, "--job_name=local", "--num_ps=1")
    assert both.wait(10) == 2 and "num_ps=1" in both.output
