"""Tables of nftables: put in place, looked for and removed with the program `nft`.

    table = FirewallTable("ps_train_1a2b")
    table.claim()               # ConfigError if another process has it
    table.load(rules.text())    # replaces the whole table in one step
    table.remove()

A process that claims a table holds a lock until it ends, however it ends.  Its table stays, if it is killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess

from ps_train.base.errors import ConfigError
from ps_train.commands.firewall.rules import removal

LOCK_DIRECTORY = "/run"
_SECS = 30.0
_ALSO_IN = "/usr/sbin:/sbin:/usr/local/sbin"
"""Directories that the PATH of a user may lack."""


class FirewallTable:
    """A table of the family inet in this network namespace.

    Args:
      name: name of the table.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        path = f"{os.environ.get('PATH', os.defpath)}:{_ALSO_IN}"
        self._program = shutil.which("nft", path=path)
        self._lock: int | None = None
        self._path = ""

    def claim(self) -> None:
        """Takes the table for this process.

        Raises:
          ConfigError: there is no nft, this process may not use it, or another process has the table.
        """
        if self._program is None:
            raise ConfigError("nft is not found: install nftables (Debian, Fedora: the package nftables).")
        done = self._run("list", "tables")
        if done.returncode:
            raise ConfigError(f"nft cannot be used ({_first_line(done)}): run this command as root.")
        namespace = os.stat("/proc/self/ns/net").st_ino  # each has tables of its own
        self._path = os.path.join(LOCK_DIRECTORY, f"{self.name}.{namespace}.lock")
        try:
            while not self._holds_lock():
                pass
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be opened ({error.strerror}): run this command as root.") from None

    def _holds_lock(self) -> bool:
        """Returns True with the lock; False if its file was removed by the process that had it, just now."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip()
            os.close(file)
            raise ConfigError(
                f"process {holder} applies the rules of this job (table {self.name}) already: end it first."
            ) from None
        try:
            is_current = os.path.samestat(os.fstat(file), os.stat(self._path))
        except FileNotFoundError:
            is_current = False
        if not is_current:
            os.close(file)
            return False
        os.truncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._lock = file
        return True

    def release(self) -> None:
        """Lets another process have the table."""
        if self._lock is not None:
            os.unlink(self._path)
            os.close(self._lock)
            self._lock = None

    def load(self, text: str) -> None:
        """Makes the table what the text says, in one step.

        Raises:
          ConfigError: nft refuses it; the table is as it was.
        """
        done = self._run("-f", "-", text=text)
        if done.returncode:
            raise ConfigError(f"nft refuses the rules of table {self.name} ({_first_line(done)}).")

    def is_there(self) -> bool:
        """Returns False if the table has been removed."""
        return self._run("list", "table", "inet", self.name).returncode == 0

    def remove(self) -> None:
        """Removes the table, if it is there; raises ConfigError if nft cannot."""
        self.load(removal(self.name))

    def _run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [self._program or "nft", *arguments]
        try:
            return subprocess.run(command, input=text, capture_output=True, text=True, timeout=_SECS)
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(command, 1, "", str(error))


def _first_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines()
    return lines[0].strip() if lines else f"exit code {done.returncode}"
