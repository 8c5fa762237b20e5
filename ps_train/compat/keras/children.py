"""The other tasks of a fit on this machine, as child processes of the one that calls it.

with children_of(job, arguments, console) as children:
worker.run(children.job, Task("worker", 0), console, given, children.watch)
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from collections.abc import Iterator, Sequence

from ps_train.base.children import describe_exit
from ps_train.base.console import Console
from ps_train.base.errors import JobFailedError
from ps_train.base.signals import MainThreadEvents
from ps_train.cluster.addresses.ports import hold_ports, release_held_port
from ps_train.commands.launch.child_process import Child, ForkTarget, start_child, task_arguments
from ps_train.commands.launch.fit import call_environment
from ps_train.commands.launch.launcher import Launcher
from ps_train.commands.launch.local import with_addresses
from ps_train.commands.launch.port_reservation import PortReservation
from ps_train.commands.launch.restart_policy import RestartPolicy
from ps_train.commands.launch.supervisor import GRACE_SECS
from ps_train.config.fault_spec import Schedule
from ps_train.config.job import Job

CHIEF = "worker:0"

_NO_FORK = ForkTarget(lambda: None, lambda arguments: 1, lambda: 1)
"""A process that has used TensorFlow is not forked."""


class Children(Launcher):
    """The supervisor of all tasks but the chief.

    Attributes:
      job: the job, with the addresses of its tasks.
    """

    job: Job

    def __init__(self, job: Job, console: Console) -> None:
        super().__init__(console, RestartPolicy(job.max_restarts), Schedule(()), job.log_dir)
        self._chief_events: MainThreadEvents | None = None
        self._cause: JobFailedError | None = None

    def watch(self, events: MainThreadEvents) -> None:
        """Ends the chief, which has these events, when another task fails."""
        self._chief_events = events
        if self._cause is not None:
            events.set_terminal_error(self._cause)

    def ended(self, child: Child, code: int) -> None:
        """Takes in the end of a task; a failure that no restart follows ends the job."""
        super().ended(child, code)
        if self.failed is not None and self._cause is None:
            self._cause = JobFailedError(f"{child.name} {describe_exit(code)}: {child.output.cause()}")
            if self._chief_events is not None:
                self._chief_events.set_terminal_error(self._cause)


@contextlib.contextmanager
def children_of(job: Job, arguments: Sequence[str], directory: str, console: Console) -> Iterator[Children]:
    """Runs the other tasks of a job beside the body; they have ended afterwards.

    Args:
      job: the job, without addresses.
      arguments: its flags.
      directory: becomes a place where the children find modules.
      console: where their output goes.
    """
    ports = PortReservation()
    children = Children(job, console)
    children.job, own = with_addresses(job, list(arguments), ports)
    tasks = {f"ps:{index}": host for index, host in enumerate(children.job.ps_hosts)}
    tasks |= {f"worker:{index}": host for index, host in enumerate(children.job.worker_hosts)}
    here = tasks.pop(CHIEF)
    hold_ports({here: ports.sockets.pop(here)})
    environ = call_environment(directory)

    def start(name: str, address: str, restarts_made: int) -> object:
        if restarts_made:
            ports.reserve_again(address)
        return start_child(
            task_arguments(own, name, restarts_made), environ, ports.sockets.pop(address, None), _NO_FORK
        )

    starts = {name: functools.partial(start, name, host) for name, host in tasks.items()}
    thread = threading.Thread(target=children.run, args=[starts, CHIEF], daemon=True, name="children")
    thread.start()
    is_done = False
    try:
        yield children
        is_done = True
    finally:
        release_held_port(int(here.rpartition(":")[2]))
        children.post(children.begin_shutdown, GRACE_SECS if is_done else 0.0)
        if is_done:  # a task that was just started again does not know that the job is over
            children.later(GRACE_SECS / 2, children.send_all, signal.SIGTERM)
        thread.join(2 * GRACE_SECS)
