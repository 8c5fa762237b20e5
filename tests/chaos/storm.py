"""A storm: a job whose processes are killed, frozen and stopped at moments that a seed decides; it must end right.

storm = Storm.of(seed=7)
print(storm.text())
weather(storm, processes)         # fails where the job did not end as it must
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
import signal
import threading
import time

from tests.support.processes import Process, Processes, TestCluster, eventually

MAX_STEPS = 400
FLAGS = (
    f"--max_steps={MAX_STEPS}", "--model=tests.support.models:Paced", "--batch_size=16", "--shuffle_buffer=0",
    "--learning_rate=0.05", "--save_steps=40", "--log_secs=0.1", "--worker_lease_secs=3", "--recovery_secs=40",
    "--startup_timeout_secs=30",
)  # fmt: skip
LATE = ("waiting for ps:", "no worker has come", "all of them are gone")
"""What a process may say that was started again when the job was over."""


@dataclasses.dataclass(frozen=True)
class Blow:
    """At a global step, a task gets a signal; after some seconds it is started again, or goes on."""

    step: int
    task: str
    signum: signal.Signals
    secs: float

    def text(self) -> str:
        return f"{self.signum.name} {self.task} @{self.step} for {self.secs:.1f}s"


@dataclasses.dataclass(frozen=True)
class Storm:
    seed: int
    update: str
    num_ps: int
    num_workers: int
    blows: tuple[Blow, ...]

    @classmethod
    def of(cls, seed: int) -> Storm:
        chance = random.Random(seed)
        update, num_ps, num_workers = ("async", "sync", "bounded")[seed % 3], chance.randint(1, 2), chance.randint(2, 3)
        tasks = [f"ps:{i}" for i in range(num_ps)] + [f"worker:{i}" for i in range(num_workers)]
        blows, step = [], 0
        for _ in range(chance.randint(1, 3)):
            step += chance.randint(20, 110)
            signum = chance.choices([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM], [6, 3, 1])[0]
            blows.append(Blow(step, chance.choice(tasks), signum, chance.uniform(0.0, 6.0)))
        return cls(seed, update, num_ps, num_workers, tuple(blows))

    def text(self) -> str:
        blows = "; ".join(blow.text() for blow in self.blows)
        return f"seed {self.seed}: {self.update}, {self.num_ps} ps, {self.num_workers} workers: {blows}"


class Run:
    """The processes of a storm's job; of each task the present one."""

    def __init__(self, storm: Storm, processes: Processes) -> None:
        self.cluster = TestCluster(processes, storm.num_ps, storm.num_workers, *FLAGS, f"--update={storm.update}")
        self.tasks = [f"ps:{i}" for i in range(storm.num_ps)] + [f"worker:{i}" for i in range(storm.num_workers)]
        self.now: dict[str, Process] = {}
        for task in self.tasks:
            self.start(task)

    def start(self, task: str) -> None:
        job_name, _, index = task.partition(":")
        self.now[task] = self.cluster.start(job_name, int(index))

    def step(self) -> int:
        """The last that the present chief has shown; beyond all where it has ended."""
        chief = self.now["worker:0"]
        if chief.process.poll() is not None:
            return MAX_STEPS
        shown = re.findall(r"^step (\d+)/", chief.output, re.MULTILINE)
        return int(shown[-1]) if shown else 0

    def strike(self, blow: Blow) -> threading.Thread | None:
        victim = self.now[blow.task]
        if victim.process.poll() is not None:
            return None
        victim.send(blow.signum)
        if blow.signum == signal.SIGTERM:
            self.all_stop()
            return None
        healing = threading.Thread(target=self._heal, args=(blow, victim))
        healing.start()
        return healing

    def _heal(self, blow: Blow, victim: Process) -> None:
        time.sleep(blow.secs)
        if blow.signum == signal.SIGSTOP:
            victim.send(signal.SIGCONT)
        else:
            victim.wait(10)
            self.start(blow.task)

    def all_stop(self) -> None:
        """The whole job was stopped by a signal; it is started again."""
        for task, process in self.now.items():
            code = process.wait(60)
            assert code in (143, 0), f"{task} ended with {code} after SIGTERM:\n{process.output}"
        if not (self.cluster.model_dir / "result.json").exists():
            for task in self.tasks:
                self.start(task)


def weather(storm: Storm, processes: Processes) -> None:
    run = Run(storm, processes)
    healing: list[threading.Thread] = []
    for blow in storm.blows:
        eventually(lambda blow=blow: run.step() >= blow.step, 120, f"step {blow.step}")
        for thread in healing:  # a second blow may hit while the first is not healed, but not the same task
            if blow.signum == signal.SIGTERM or run.now[blow.task].process.poll() is not None:
                thread.join(30)
        thread = run.strike(blow)
        healing += [thread] if thread else []
    for thread in healing:
        thread.join(30)
    eventually(lambda: all(p.process.poll() is not None for p in run.now.values()), 150, f"the end of {storm.text()}")
    check(storm, run)


def check(storm: Storm, run: Run) -> None:
    told = "\n".join(f"--- {task}: {p.process.poll()}\n" + "\n".join(p.lines[-15:]) for task, p in run.now.items())
    told = f"{storm.text()}\n{told}"
    path = run.cluster.model_dir / "result.json"
    assert path.exists(), told
    result = json.loads(path.read_text())
    assert result["global_step"] == MAX_STEPS, told
    assert result["loss"] is None or (math.isfinite(result["loss"]) and result["loss"] < 0.2), told
    for process in run.now.values():
        code = process.wait(10)
        assert code == 0 or (code == 1 and any(words in process.output for words in LATE)), told
