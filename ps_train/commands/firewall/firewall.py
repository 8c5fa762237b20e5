"""A firewall for the ports of a job on this host: only the job's hosts reach them.

    python -m ps_train firewall --flagfile=job.flags                 # prints the rules for nft (nftables)
    python -m ps_train firewall --flagfile=job.flags --apply         # applies them until Ctrl-C or SIGTERM
    python -m ps_train firewall --flagfile=job.flags --apply -- CMD  # applies them as long as CMD runs
    python -m ps_train firewall --flagfile=job.flags --remove        # removes what a killed one has left

Give the flags of the job.  The rules are for the ports of all tasks whose addresses are of this host, or with
--job_name and --task_index for the port of this task.  help: SECURITY#firewall
"""

from __future__ import annotations

import argparse
import dataclasses
import ipaddress
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.base.children import NewProcess, shell_code
from ps_train.base.command_parser import CommandParser
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, ConfigError, PsTrainError
from ps_train.base.network_interfaces import is_loopback, local_addresses
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.cluster.topology import rack_port_of
from ps_train.commands.doctor.network import resolve_all
from ps_train.commands.firewall.nftables import FirewallTable
from ps_train.commands.firewall.rules import Network, Rules, networks_of, own_tasks, table_name
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.error_line import run_command
from ps_train.config.flags import ParsedFlags, with_task
from ps_train.config.job import Task
from ps_train.config.job_values import described
from ps_train.config.refusals import refuse
from ps_train.config.verbs import VERBS

__all__ = ["main"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECS, _REFRESH_SECS = 1.0, 10.0
"""Seconds between two looks at the cluster file, and at the names of the hosts and the table."""

_FROM_KERNEL = 0x80
"""`si_code` of a signal from the terminal, which the command gets too (asm-generic/siginfo.h)."""


@dataclasses.dataclass(frozen=True)
class _Options:
    admit: frozenset[Network]
    admit_status: frozenset[Network]


class RuleSource:
    """Makes the rules of this host from flags, cluster file and names.

    Args:
      parse: returns the flags of the job; called again when the cluster file has changed.
      options: further networks.
      warn: receives a line about what is not covered; each line once.
      resolve: returns the IP addresses and the error of each host.
    """

    def __init__(
        self,
        parse: Callable[[], ParsedFlags],
        options: _Options,
        warn: Callable[[str], None],
        resolve: Callable[[Sequence[str]], Mapping[str, tuple[list[str], str]]] = resolve_all,
    ) -> None:
        self._parse, self._options, self._warn, self._resolve = parse, options, warn, resolve
        self._parsed = parse()
        self._known: dict[str, list[str]] = {}
        self._warned: set[str] = set()
        task = self._parsed.task
        if not any(getattr(self._parsed.job, name) for name in HOST_LISTS):
            raise ConfigError("the job has no host lists: give --ps_hosts and --worker_hosts.")
        if task.job_name == "evaluator":
            raise ConfigError("an evaluator opens no port: its host needs no rules.")
        self.task: Task | None = None if task.job_name == "local" else with_task(task)
        self.table = table_name(self._parsed.job, self.task)
        self._file = self._stamp()

    def has_changed(self) -> bool:
        """Returns True once after each change of the cluster file."""
        before, self._file = self._file, self._stamp()
        return self._file is not None and self._file != before

    def reread(self) -> None:
        """Reads the cluster file again; raises ConfigError if it is not valid."""
        self._parsed = self._parse()

    def rules(self) -> Rules:
        """Returns the rules as they should be now; raises ConfigError if no task of the job is on this host."""
        job = self._parsed.job
        refuse(job, firewall="the firewall")
        cluster = Cluster.of(job)
        tasks = cluster.tasks()
        before, self._known = self._known, {}
        for host, (found, error) in self._resolve([address.host for address in tasks.values()]).items():
            self._known[host] = found or before.get(host, [])
            if not self._known[host]:
                self._once(f"the name {host!r} is not resolved ({error}): its host is not admitted until it is")
        local = [str(one.address) for one in local_addresses()]
        own = [str(self.task)] if self.task else own_tasks(tasks, self._known, local)
        if self.task:
            cluster.address(self.task)
        if not own:
            raise ConfigError(
                f"no task of the job is on this host, by its addresses ({', '.join(local)}): run this on their hosts, "
                "or give --job_name and --task_index of the task that is here."
            )
        ports = {tasks[name].port for name in own}
        ports |= {rack_port_of(job, cluster, Task.named(name)) for name in own} - {0}
        pages = self._page_ports(str(cluster.chief) in own)
        members = networks_of(text for found in self._known.values() for text in found) | self._options.admit
        if job.max_workers and not self._options.admit:
            self._once(
                f"{described(job, 'max_workers')}: workers of other hosts are not admitted without --admit=NETWORK"
            )
        if self._options.admit_status and not pages and str(cluster.chief) in own:
            self._once(
                "--admit_status has no effect: it needs a --status_port, and a --status_host other than the loopback"
            )
        return Rules(self.table, frozenset(ports) | pages, members, pages, self._options.admit_status)

    def _page_ports(self, has_chief: bool) -> frozenset[int]:
        """Returns the ports of the status page and of the health of tasks, if they are not on the loopback alone."""
        job, ports = self._parsed.job, set()
        for name in ("status_port", "health_port"):
            port = getattr(job, name)
            if port is None or port < 0 or is_loopback(job.status_host) or (name == "status_port" and not has_chief):
                continue
            if port == 0:
                self._once(f"{described(job, name)}: a port that is chosen later is not protected; give a number")
            else:
                ports.add(port)
        return frozenset(ports)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._parsed.job.cluster_file)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)


class _Guard:
    """Keeps the rules in place until a signal comes, or the command ends."""

    def __init__(self, source: RuleSource, console: Console) -> None:
        self._source, self._console = source, console
        self._table = FirewallTable(source.table)
        self._rules = source.rules()
        self._next_refresh = time.monotonic() + _REFRESH_SECS

    def run(self, command: Sequence[str]) -> int:
        """Returns the exit code: that of the command, or 0 after a signal."""
        self._table.claim()
        waited = {*(one for one in _SIGNALS if signal.getsignal(one) != signal.SIG_IGN), signal.SIGCHLD}  # nohup
        before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        try:
            self._table.load(self._rules.text())
            ports = ", ".join(str(port) for port in sorted(self._rules.ports))
            self._show(f"port {ports}: only {len(self._rules.members)} networks of the job and this host are admitted")
            return self._watch(self._start(command, before) if command else None, waited)
        finally:
            self._table.remove()
            self._table.release()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._show(f"table {self._source.table} is removed")

    def _start(self, command: Sequence[str], mask: set[int]) -> NewProcess:
        def restore() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        try:
            return NewProcess(subprocess.Popen(command, preexec_fn=restore))
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be started ({error.strerror}): give a command after --.") from None

    def _watch(self, process: NewProcess | None, waited: set[signal.Signals]) -> int:
        while True:
            found = signal.sigtimedwait(waited, _POLL_SECS)
            if found is not None and found.si_signo != signal.SIGCHLD:
                if process is None:
                    return EXIT_DONE
                if found.si_code != _FROM_KERNEL:
                    process.send(found.si_signo)
            code = process.poll() if process is not None else None
            if code is not None:
                return shell_code(code)
            self._refresh()

    def _refresh(self) -> None:
        """Follows changes of the cluster file and of names, and puts the table back if another program removed it."""
        has_changed, is_due = self._source.has_changed(), time.monotonic() >= self._next_refresh
        if not has_changed and not is_due:
            return
        self._next_refresh = time.monotonic() + _REFRESH_SECS
        try:
            if has_changed:
                self._source.reread()
            rules = self._source.rules()
            is_there = self._table.is_there()
            if rules != self._rules or not is_there:
                self._table.load(rules.text())
                self._rules = rules
                self._show(
                    "the hosts have changed: new rules" if is_there else "the table had been removed: it is back"
                )
        except (PsTrainError, OSError) as error:
            self._show(f"{str(error).rstrip('.')}; the rules stay as they were")

    def _show(self, text: str) -> None:
        self._console.error(f"ps_train firewall: {text}")


def main(arguments: Sequence[str], console: Console) -> int:
    """Prints, applies or removes the rules; returns the exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives the rules and messages.
    """

    def run() -> int:
        cut = list(arguments).index("--") if "--" in arguments else len(arguments)
        given, flags = command_line().parse_known_args(arguments[:cut])
        return _run(given, flags, list(arguments[cut + 1 :]), console)

    return run_command(run, console, VERBS["firewall"].page)


def _run(given: argparse.Namespace, flags: Sequence[str], command: list[str], console: Console) -> int:
    options = _Options(_networks(given.admit, "--admit"), _networks(given.admit_status, "--admit_status"))
    if command and not given.apply:
        raise ConfigError(f"the command {command[0]} has no place without --apply: add it.")
    if given.apply and given.remove:
        raise ConfigError("--apply and --remove are both given: drop one of them.")

    def warn(text: str) -> None:
        console.error(f"ps_train firewall: warning: {text}")

    source = RuleSource(lambda: parse_flags(flags, os.environ), options, warn)
    if given.remove:
        table = FirewallTable(source.table)
        table.claim()
        table.remove()
        table.release()
        console.line(f"table {source.table} is removed")
        return EXIT_DONE
    if given.apply:
        return _Guard(source, console).run(command)
    console.line(source.rules().text().rstrip())
    return EXIT_DONE


def _networks(texts: Sequence[str], flag: str) -> frozenset[Network]:
    found = set()
    for text in (part for entry in texts for part in entry.split(",")):
        try:
            found.add(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            raise ConfigError(f"{flag}={text} is not a network ({error}): use for example 10.0.0.0/24.") from None
    return frozenset(found)


def command_line() -> CommandParser:
    """Returns the parser of the command line."""
    parser = CommandParser("python -m ps_train firewall", description=__doc__)
    add = parser.add_argument
    add("--apply", action="store_true", help="applies the rules until a signal, or the end of the command after --")
    add("--remove", action="store_true", help="removes the rules of this job, which a killed process has left")
    networks: Any = {"action": "append", "default": [], "may_be_empty": True}  # the check of a network refuses that
    add("--admit", **networks, help="NETWORK,... that is admitted too; for elastic workers")
    add("--admit_status", **networks, help="NETWORK,... that may see the status page and the health of tasks")
    parser.epilog = "All flags of the job are possible too: python -m ps_train --help."
    return parser
