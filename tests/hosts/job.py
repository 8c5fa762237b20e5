"""A job with a host for each task, and the two ends that it may have.

    job = Job(network, "sync", 12)                 # ps-0, ps-1, worker-0 (the chief), worker-1
    job.start_all()
    job.reach(50)
    network.part(job.hosts["worker:1"])
    job.ends_right(60, absent=["worker:1"])        # at exactly its number of steps, with exactly their updates
    job.fails(["worker:1"], 40, "lost ps:")        # exit code 1 and the named cause, in time

No process is left on any host.  The directory of the model is on the chief's own disk.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Sequence

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.hosts.host import Host, Network
from tests.hosts.updates import Torn, updates_in
from tests.support.machine.processes import Process, eventually

HEARTBEAT_SECS, RECOVERY_SECS, STARTUP_SECS = 3, 12, 240
END_SECS = 30.0
"""For a process to end after its time-out, on a machine with more processes than cores."""
DONE_SECS = 150.0
"""For the rest of a job that goes on."""
MODES = ("sync", "async", "bounded")
STEPS_PER_SEC = {"sync": 25, "async": 50, "bounded": 50}
"""The most that the model (SlowCounting) makes with two workers."""
PORT = 2222
WHOLE = Torn()


class Job:
    """The hosts and the processes of a job.

    Args:
      network: for its hosts.
      update: its mode.
      secs: that its training takes at least; steps are so slow that a fault strikes the same ones on each machine.
      flags: of all tasks, the last ones.
      num_ps: number of ps.
      cluster_file: whether the addresses are in a file on each host rather than in flags.
      sizes: of the disks of some tasks' hosts; the others' are not limited.

    Attributes:
      flags: of every task.
      hosts: by task.
      now: the present process of each task.
    """

    def __init__(
        self,
        network: Network,
        update: str,
        secs: float,
        *flags: str,
        num_ps: int = 2,
        cluster_file: bool = False,
        sizes: dict[str, str] | None = None,
    ) -> None:
        self.network, self.update, self.steps = network, update, round(secs * STEPS_PER_SEC[update])
        self._by_file = cluster_file
        self.tasks = [*(f"ps:{index}" for index in range(num_ps)), "worker:0", "worker:1"]
        names = {task: task.replace(":", "-") for task in self.tasks}
        self.hosts = {task: network.host(name, (sizes or {}).get(task, "")) for task, name in names.items()}
        network.connect()
        self.addresses = {task: f"{host.name}:{PORT}" for task, host in self.hosts.items()}
        self._struck = time.monotonic()
        self.now: dict[str, Process] = {}
        self.started: dict[str, list[Process]] = {task: [] for task in self.tasks}
        self.flags = [
            f"--update={update}", f"--max_steps={self.steps}", "--model=tests.support.models.small:SlowCounting",
            "--batch_size=16", "--shuffle_buffer=0", "--save_steps=50", "--log_secs=0.1",
            f"--heartbeat_timeout_secs={HEARTBEAT_SECS}", f"--recovery_timeout_secs={RECOVERY_SECS}",
            f"--startup_timeout_secs={STARTUP_SECS}", *flags,
        ]  # fmt: skip
        if not cluster_file:
            self.flags += [f"--{job}_hosts={','.join(self._of(job))}" for job in ("ps", "worker")]

    def _of(self, job_name: str) -> list[str]:
        return [address for task, address in self.addresses.items() if task.startswith(job_name)]

    @property
    def chief(self) -> Process:
        return self.now["worker:0"]

    def write_cluster_file(self) -> None:
        """On every host that is on."""
        text = json.dumps({job: self._of(job) for job in ("ps", "worker")})
        for host in self.hosts.values():
            if host.is_on:
                new = host.disk / "cluster.json.new"
                new.write_text(text)
                new.rename(host.disk / "cluster.json")

    def start(self, task: str, *flags: str, env: dict[str, str] | None = None) -> Process:
        job_name, _, index = task.partition(":")
        own = [f"--job_name={job_name}", f"--task_index={index}"]
        own += [f"--cluster_file={self.network.disk}/cluster.json"] if self._by_file else []
        own += [f"--model_dir={self.network.disk}/model"] if task == "worker:0" else []
        self.now[task] = self.hosts[task].run(*self.flags, *own, *flags, env=env)
        self.started[task].append(self.now[task])
        return self.now[task]

    def start_all(self) -> None:
        if self._by_file:
            self.write_cluster_file()
        for task in self.tasks:
            self.start(task)

    def move(self, task: str, name: str = "") -> Host:
        """A new host for a task whose old one is off, with its disk; by its old name or, where given, another one."""
        old = self.hosts[task]
        assert not old.is_on
        self.hosts[task] = host = self.network.host(old.name)
        if name:
            self.addresses[task] = f"{host.address}:{PORT}"
        return host

    def step(self) -> int:
        """The last that a chief has shown."""
        shown = re.findall(r"^step (\d+)/", self.chief.output, re.MULTILINE)
        return int(shown[-1]) if shown else 0

    def strike(self, fault: Callable[..., None], *arguments: object) -> None:
        """Makes a fault, from which on times are measured."""
        fault(*arguments)
        self._struck = time.monotonic()

    def note(self, what: str, since: float | None = None) -> None:
        """Prints the seconds since the last fault; `pytest -rP` shows it."""
        secs = time.monotonic() - (self._struck if since is None else since)
        print(f"{self.update}: {what}: {secs:.1f}s")

    def goes_on(self, what: str, steps: int = 10, within_secs: float = DONE_SECS) -> None:
        """Waits for so many steps more than now."""
        reached = self.step() + steps
        self.reach(reached, within_secs)
        self.note(what)

    def reach(self, step: int, within_secs: float = STARTUP_SECS) -> None:
        """Waits until the chief, which is training, shows that step."""

        def reached() -> bool:
            assert self.chief.process.poll() is None, self.story()
            return self.step() >= step

        eventually(reached, within_secs, f"step {step}")

    def lost(self, ps: str) -> tuple[int, int]:
        """Returns the step to which the chief has restored a ps, and how many updates it calls lost."""
        found = re.search(rf"{ps} restarted; restored step (\d+); (\d+) updates lost", self.chief.output)
        assert found, self.story()
        return int(found[1]), int(found[2])

    def story(self) -> str:
        parts = [f"{self.update}, {self.steps} steps"]
        for task, processes in self.started.items():
            for process in processes:
                lines = [line for line in process.lines if not line.startswith("step ")]
                parts.append(f"--- {task}, exit code {process.process.poll()}\n" + "\n".join(lines[-20:]))
        return "\n".join(parts)

    def end(self, tasks: Collection[str], within_secs: float) -> float:
        """Waits until the tasks end, and returns the seconds that it took."""
        began = time.monotonic()

        def ended() -> bool:
            return all(self.now[task].process.poll() is not None for task in tasks)

        while not ended():
            late = [task for task in tasks if self.now[task].process.poll() is None]
            assert time.monotonic() - began < within_secs, f"{late} did not end within {within_secs}s\n{self.story()}"
            time.sleep(0.05)
        return time.monotonic() - began

    def ends_right(self, absent: Sequence[str] = (), torn: Torn = WHOLE, within_secs: float = DONE_SECS) -> None:
        """The job is done, though some tasks are absent."""
        present = [task for task in self.tasks if task not in absent]
        self.end(present, within_secs)
        self.note("the job ended right")
        story = self.story()
        assert [self.now[task].wait() for task in present] == [0] * len(present), story
        model_dir = self.hosts["worker:0"].disk / "model"
        assert json.loads((model_dir / "result.json").read_text())["global_step"] == self.steps, story
        saved = checkpoints_in(str(model_dir))
        assert saved[0][0] == self.steps, f"{saved[0]}\n{story}"
        made = updates_in(saved[0][1])
        least, most = torn.bounds(self.update, self.steps) if "ps:1" in self.tasks else (self.steps, self.steps)
        fits = any(here == self.steps and least <= there <= most for here, there in (made, made[::-1]))
        assert fits, f"{made} updates, not {self.steps} on ps 0 and {least} to {most} on ps 1\n{story}"
        self.nothing_left(present)

    def fails(self, tasks: Sequence[str], cause: str, within_secs: float) -> None:
        """The tasks end in time, with exit code 1 and a last line that has this cause (a regular expression)."""
        self.end(tasks, within_secs)
        self.note(f"{', '.join(tasks)} ended with 1")
        for task in tasks:
            process = self.now[task]
            assert process.wait() == 1, f"{task}\n{self.story()}"
            assert re.search(cause, process.lines[-1]), f"{task}: {cause}\n{self.story()}"
        self.nothing_left(tasks)

    def nothing_left(self, tasks: Collection[str]) -> None:
        for task in tasks:
            if self.hosts[task].is_on:
                assert self.hosts[task].processes() == [], task
