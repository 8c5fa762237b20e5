"""A real Slurm on this machine for tests: munged, slurmctld and slurmd with a configuration and ports of their own."""

from __future__ import annotations

import os
import pathlib
import secrets
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Processes, eventually

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_CONF = """
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ctld}
SlurmdPort={slurmd}
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
KillWait=30
MinJobAge=300
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=localhost CPUs=16 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A running cluster of one node with 16 imagined CPUs.

    Args:
      directory: holds everything; only root may write there.
      processes: starts and ends the daemons.
    """

    def __init__(self, directory: pathlib.Path, processes: Processes) -> None:
        self.directory, self._env = directory, {"SLURM_CONF": str(directory / "slurm.conf"), "PATH": _PATH}
        for name in ("munge", "state", "spool"):
            (directory / name).mkdir(mode=0o755)
        key = directory / "munge" / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        ctld, slurmd = free_ports(2)
        (directory / "slurm.conf").write_text(_CONF.format(dir=directory, ctld=ctld, slurmd=slurmd))
        (directory / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        munge = {"key": key, "socket": key.with_name("socket"), "pid": key.with_name("pid")}
        options = [f"--{name}{'' if name == 'socket' else '-file'}={path}" for name, path in munge.items()]
        options += [f"--log-file={key.with_name('log')}", f"--seed-file={key.with_name('seed')}"]
        self.daemons = [processes.command(["munged", "--foreground", "--force", *options], env=self._env)]
        eventually(munge["socket"].exists, 30, "munged's socket")
        for command in (["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", "localhost"]):
            self.daemons.append(processes.command(command, env=self._env))
        eventually(lambda: self.run("sinfo", "--noheader", "--format=%T").strip() == "idle", 60, "an idle node")

    def run(self, *command: str, **env: str) -> str:
        """Returns the output of a command of Slurm; "" if it fails."""
        made = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.directory,
            env={**os.environ, **self._env, **env},
        )
        return made.stdout if made.returncode == 0 else ""

    def submit(self, *command: str, **env: str) -> str:
        """Submits a batch script; returns the number of the job."""
        number = self.run("sbatch", "--parsable", *command, **env).strip()
        assert number.isdigit(), self.logs()
        return number

    def field(self, job: str, name: str) -> str:
        """Returns a field that `scontrol show job` has, such as JobState or ExitCode."""
        words = dict(word.partition("=")[::2] for word in self.run("scontrol", "show", "job", job).split())
        return words.get(name, "")

    def wait_for_state(self, job: str, *states: str, within_secs: float = 120) -> str:
        return str(
            eventually(
                lambda: next((state for state in states if self.field(job, "JobState") == state), None),
                within_secs,
                f"{' or '.join(states)} of job {job}",
            )
        )

    def logs(self) -> str:
        return "\n".join(daemon.output[-3000:] for daemon in self.daemons)


def skip_without_slurm() -> None:
    missing = [name for name in _PROGRAMS if not shutil.which(name, path=_PATH)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and Debian's slurm-wlm and munge ({', '.join(missing) or 'not root'})")


def make_slurm(directory: pathlib.Path, processes: Processes) -> Iterator[Slurm]:
    skip_without_slurm()
    slurm = Slurm(directory, processes)
    yield slurm
    slurm.run("scancel", "--state=PENDING")
    slurm.run("scancel", "--state=RUNNING")
    eventually(lambda: not slurm.run("squeue", "--noheader"), 60, "the end of all jobs")
