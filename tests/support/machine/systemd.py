"""A real systemd for tests: the first process of its own PID, mount, network and cgroup namespaces.

It knows the units of deploy/systemd alone, and targets without content.  What units write goes to memory.
Needs root.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import site
import subprocess
import sys

import pytest

from tests.support.machine.fork_server import ROOT
from tests.support.machine.processes import Processes, eventually

_BOOT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /opt
mkdir -p /opt/python /opt/site /opt/source /opt/given /opt/ps_train/bin
mount --bind "$PYTHON" /opt/python
mount --bind "$SITE" /opt/site
mount --bind "$SOURCE" /opt/source
mount --bind "$GIVEN" /opt/given
cat > /opt/ps_train/bin/ps_train <<'END'
#!/bin/sh
export PYTHONPATH=/opt/source:/opt/site LD_LIBRARY_PATH=/opt/python/lib
exec "/opt/python/bin/python$(cat /opt/version)" -B -m ps_train "$@"
END
echo "$VERSION" > /opt/version
chmod 755 /opt/ps_train/bin/ps_train
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/etc /run/user
cp -a /etc/. /run/etc
mount --bind /run/etc /etc
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
mount -t tmpfs -o mode=1777 tmpfs /tmp
for hidden in /usr/lib/systemd/system /etc/systemd /usr/lib/systemd/system-generators; do
  mount -t tmpfs tmpfs $hidden
done
mkdir -p /etc/systemd/system /etc/ps_train
for name in sysinit basic shutdown network-online nss-lookup multi-user; do
  printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' $name > /usr/lib/systemd/system/$name.target
done
cp /opt/source/deploy/systemd/*.service /usr/lib/systemd/system
cp /opt/given/*.flags /etc/ps_train
systemd-sysusers /opt/source/deploy/systemd/ps_train.sysusers
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=basic.target --show-status=false --log-target=console
"""


class Systemd:
    """A running systemd with the units of deploy/systemd.

    Args:
      processes: starts it and ends it.
      flags: the content of /etc/ps_train/job.flags.
    """

    def __init__(self, processes: Processes, flags: str) -> None:
        given = processes.directory / "given"
        given.mkdir()
        (given / "job.flags").write_text(flags)
        packages = next(path for path in site.getsitepackages() if pathlib.Path(path, "tensorflow").exists())
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        env = {
            "VERSION": version,
            "PYTHON": sys.base_prefix,
            "SITE": packages,
            "SOURCE": str(ROOT),
            "GIVEN": str(given),
        }
        spaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--cgroup", "--uts", "--ipc", "--net"]
        self._process = processes.command(["unshare", *spaces, "sh", "-c", _BOOT], env=env)
        self._pid = int(str(eventually(self._find, 30, f"systemd; {self._process.output}")))
        eventually(lambda: self.run("systemctl", "is-active", "basic.target").strip() == "active", 30, "basic.target")

    def _find(self) -> int | None:
        children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        names = {pid: pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in children}
        return next((int(pid) for pid, name in names.items() if name == "systemd"), None)

    def run(self, *command: str) -> str:
        """Returns the output of a command in the namespaces of systemd."""
        enter = ["nsenter", f"--target={self._pid}", "--all", "--", *command]
        return subprocess.run(enter, capture_output=True, text=True, timeout=60).stdout

    def field(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    @property
    def log(self) -> str:
        return self._process.output


def skip_without_systemd() -> None:
    names = ("systemctl", "systemd-sysusers", "unshare", "nsenter")
    if os.geteuid() != 0 or not all(map(shutil.which, names)) or not os.path.exists("/lib/systemd/systemd"):
        pytest.skip("needs root, systemd and util-linux")
