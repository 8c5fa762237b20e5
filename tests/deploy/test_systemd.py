"""The units of deploy/systemd: by systemd-analyze, by ps_train's exit codes, and under a real systemd."""

from __future__ import annotations

import configparser
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest

from ps_train.base.errors import EXIT_CONFIG, exit_code_of_signal
from ps_train.cluster.addresses.from_environment import parse_flags
from tests.support.machine.fork_server import ROOT
from tests.support.machine.processes import Processes, eventually
from tests.support.machine.systemd import Systemd, skip_without_systemd

SYSTEMD = ROOT / "deploy" / "systemd"
UNITS = ("ps_train-ps@", "ps_train-worker@")
MOST_EXPOSURE = 1.2
"""Of 10, by the scale of `systemd-analyze security`; a service without any restriction has 9.6."""


def settings(unit: str) -> list[tuple[str, str]]:
    """The settings of the section Service, some of which occur several times."""
    text = (SYSTEMD / f"{unit}.service").read_text().replace("\\\n", "")
    lines = text.partition("[Service]")[2].partition("[Install]")[0].splitlines()
    return [(line.partition("=")[0], line.partition("=")[2]) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_error_in_the_unit(unit: str, tmp_path: pathlib.Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    text = (SYSTEMD / f"{unit}.service").read_text().replace("/opt/ps_train/bin/ps_train", sys.executable)
    path = tmp_path / f"{unit}0.service"
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)]
    path.write_text(text)
    made = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (made.returncode, made.stdout + made.stderr) == (0, "")
    path.write_text(text.replace("ProtectSystem=strict", "ProtectSystem=stricter"))
    assert "stricter" in subprocess.run(command, capture_output=True, text=True, timeout=60).stderr


@pytest.mark.parametrize("unit", UNITS)
def test_the_exposure_of_the_unit_is_low(unit: str) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    command = ["systemd-analyze", "security", "--offline=true", str(SYSTEMD / f"{unit}.service")]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "unrecognized option" in made.stderr:
        pytest.skip("this systemd-analyze cannot judge a file")
    found = re.search(r"Overall exposure level for .*: ([0-9.]+) ", made.stdout)
    assert found is not None, made.stdout + made.stderr
    assert float(found[1]) <= MOST_EXPOSURE, made.stdout


@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_follows_the_exit_codes_and_admits_only_the_network_of_the_job(unit: str) -> None:
    found = dict(settings(unit))
    assert found["Restart"] == "on-failure"
    assert found["RestartPreventExitStatus"] == str(EXIT_CONFIG)
    assert set(found["SuccessExitStatus"].split()) == {str(exit_code_of_signal(signum)) for signum in (2, 15)}
    assert float(found["TimeoutStopSec"]) >= 20  # a stopped job has saved and ended within 10 s
    assert (found["IPAddressDeny"], found["IPAddressAllow"]) == ("any", "localhost")
    assert (found["User"], found["Group"], found["ProtectSystem"]) == ("ps_train", "ps_train", "strict")
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(SYSTEMD / "job-network.conf")
    assert list(parser["Service"]) == ["IPAddressAllow"]


def test_the_units_differ_only_in_their_task() -> None:
    ps, worker = ([line for line in settings(unit) if line[0] not in ("ExecStart", "Environment")] for unit in UNITS)
    assert ps == worker


@pytest.mark.parametrize(("unit", "task"), [("ps_train-ps@", "ps:0"), ("ps_train-worker@", "worker:0")])
def test_the_command_of_the_unit_is_a_task_of_the_flagfile(unit: str, task: str) -> None:
    words = shlex.split(dict(settings(unit))["ExecStart"].replace("%i", "0"))
    arguments = [word.replace("/etc/ps_train", str(SYSTEMD)) for word in words[1:]]
    found = parse_flags(arguments, {})
    assert str(found.task) == task and len(found.job.worker_hosts) == 2


JOB = """
--ps_hosts=127.0.0.1:2222
--worker_hosts=127.0.0.1:2223
--model=ps_train.models.digits:Digits
--startup_timeout_secs=100
"""


def state_of(systemd: Systemd, unit: str) -> tuple[Any, ...]:
    return tuple(systemd.field(unit, name) for name in ("ActiveState", "Result", "ExecMainStatus", "NRestarts"))


@pytest.mark.long
@pytest.mark.timeout(500)
def test_units_of_a_job_run_to_its_end_and_a_killed_one_is_restarted(processes: Processes) -> None:
    skip_without_systemd()
    systemd = Systemd(processes, JOB + "--max_steps=3000\n--log_secs=0.5\n--save_secs=1\n")
    ps, worker = (f"{unit}0.service" for unit in UNITS)
    systemd.run("systemctl", "start", ps, worker)
    assert systemd.field(ps, "ActiveState") == "active", systemd.log
    assert systemd.run("stat", "--format=%U", f"/proc/{systemd.field(ps, 'MainPID')}").strip() == "ps_train"
    eventually(lambda: systemd.field(ps, "NRestarts") == "0" and "model.ckpt" in files_of(systemd), 200, "a checkpoint")
    systemd.run("systemctl", "kill", "--signal=KILL", ps)
    eventually(lambda: systemd.field(ps, "NRestarts") == "1", 60, "a restart")
    for unit in (worker, ps):
        eventually(
            lambda unit=unit: systemd.field(unit, "ActiveState") in ("inactive", "failed"), 200, f"end of {unit}"
        )
    assert state_of(systemd, worker) == ("inactive", "success", "0", "0"), systemd.log
    assert state_of(systemd, ps)[:3] == ("inactive", "success", "0"), systemd.log
    assert '"global_step": 3000' in systemd.run("cat", "/var/lib/ps_train/model/result.json")


def files_of(systemd: Systemd) -> str:
    return systemd.run("ls", "/var/lib/ps_train/model")


@pytest.mark.timeout(300)
def test_a_wrong_configuration_is_not_restarted(processes: Processes) -> None:
    skip_without_systemd()
    systemd = Systemd(processes, JOB + "--max_steps=many\n")
    worker = f"{UNITS[1]}0.service"
    systemd.run("systemctl", "start", worker)
    eventually(lambda: systemd.field(worker, "ActiveState") == "failed", 60, "the failure")
    assert state_of(systemd, worker) == ("failed", "exit-code", str(EXIT_CONFIG), "0"), systemd.log


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_stop_is_no_failure_and_not_followed_by_a_restart(processes: Processes) -> None:
    skip_without_systemd()
    systemd, ps = Systemd(processes, JOB), f"{UNITS[0]}0.service"
    systemd.run("systemctl", "start", ps)
    tables = [f"/proc/{systemd.field(ps, 'MainPID')}/net/{name}" for name in ("tcp", "tcp6")]
    eventually(lambda: ":08AE " in systemd.run("cat", *tables), 150, "port 2222")
    systemd.run("systemctl", "stop", ps)
    assert state_of(systemd, ps) == ("inactive", "success", "0", "0"), systemd.log  # systemd has forgotten the code
