"""A storm: a job whose processes are killed, frozen and stopped at moments that a seed decides; it must end right.

storm = Storm.of(seed=7)
print(storm.text())
weather(storm, processes)         # fails where the job did not end as it must

To end right is: at exactly MAX_STEPS with exactly the updates that the mode promises (`verdict.py`), or, where a task
that is needed never comes back, with that for a cause; within the deadline; and no process is left.
"""

from __future__ import annotations

import dataclasses
import math
import random
import re
import signal
import threading
import time
from collections.abc import Iterable

from tests.chaos.verdict import Torn, check_end, check_failure, check_orphans
from tests.support.processes import Process, Processes, TestCluster, eventually

MAX_STEPS = 400
FLAGS = (
    f"--max_steps={MAX_STEPS}", "--model=tests.support.models:Counting", "--batch_size=16", "--shuffle_buffer=0",
    "--save_steps=40", "--log_secs=0.1", "--heartbeat_timeout_secs=3",
    "--startup_timeout_secs=30",
)  # fmt: skip
LOST = r"(ps:\d(?:, ps:\d)*) restarted; restored step (\d+); (\d+|an unknown number of) updates lost"
"""A chief's line on what was lost."""
NEVER = math.inf
DEADLINE_SECS = 150
UNHEARD = 100
"""Updates of others that the chief had not heard of when ps 0 was lost: a burst of the chief takes 0.2 s, in which each
of two others makes 40 steps of 5 ms."""


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
        for_good = chance.random() < 0.15
        blows, step = [], 0
        for _ in range(1 if for_good else chance.randint(1, 3)):
            step += chance.randint(20, 110)
            signum = chance.choices([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM], [5, 3, 0 if for_good else 2])[0]
            blows.append(Blow(step, chance.choice(tasks), signum, NEVER if for_good else chance.uniform(0.0, 6.0)))
        return cls(seed, update, num_ps, num_workers, tuple(blows))

    @property
    def missing(self) -> str | None:
        """Who never comes back."""
        return next((blow.task for blow in self.blows if blow.secs == NEVER), None)

    @property
    def deserved_end(self) -> str | None:
        """Whom the cause must name, where the job cannot go on: a ps or the chief (which may be started again, but is
        not) that never comes back.  Nobody waits for another worker."""
        return self.missing if self.missing and (self.missing.startswith("ps") or self.missing == "worker:0") else None

    def text(self) -> str:
        blows = "; ".join(blow.text() for blow in self.blows)
        return f"seed {self.seed}: {self.update}, {self.num_ps} ps, {self.num_workers} workers: {blows}"


class Run:
    """The processes of a storm's job; of each task the present one."""

    def __init__(self, storm: Storm, processes: Processes) -> None:
        # Who is to come back needs time to start where many processes share two cores.
        patience = f"--recovery_timeout_secs={12 if storm.missing else 40}"
        flags = (*FLAGS, patience, f"--update={storm.update}")
        self.cluster = TestCluster(processes, storm.num_ps, storm.num_workers, *flags)
        self.tasks = [f"ps:{i}" for i in range(storm.num_ps)] + [f"worker:{i}" for i in range(storm.num_workers)]
        self.now: dict[str, Process] = {}
        self.started: dict[str, list[Process]] = {task: [] for task in self.tasks}
        for task in self.tasks:
            self.start(task)

    def start(self, task: str) -> None:
        job_name, _, index = task.partition(":")
        self.now[task] = self.cluster.start(job_name, int(index))
        self.started[task].append(self.now[task])

    def step(self) -> int:
        """The last that the present chief has shown; beyond all where it has ended."""
        chief = self.now["worker:0"]
        if chief.process.poll() is not None:
            return MAX_STEPS
        shown = re.findall(r"^step (\d+)/", chief.output, re.MULTILINE)
        return int(shown[-1]) if shown else 0

    def torn(self, blows: Iterable[Blow]) -> Torn:
        """What the blows may have torn apart, by what the chiefs have said."""
        workers, num_ps = len(self.cluster.worker_hosts), len(self.cluster.ps_hosts)
        if num_ps == 1:
            return Torn()
        pushes = sum(1 if blow.task.startswith("worker") else workers for blow in blows)
        less, ahead = 0, []
        for lost, restored, count in self.losses():
            if lost == "ps:0":  # of a chief that was started again, too, any update since then may not be heard of
                said = (int(count), UNHEARD) if count.isdigit() else (0, MAX_STEPS - restored)
                ahead.append((restored, *said))
            else:  # ps:1, or both: what ps 1 was ahead since that checkpoint is lost
                ahead = [more for more in ahead if more[0] < restored]
                less += int(count) if lost == "ps:1" else 0
        return Torn(pushes, less, sum(more for _, more, _ in ahead), sum(unheard for _, _, unheard in ahead))

    def losses(self) -> list[tuple[str, int, str]]:
        """Returns, for each loss of ps, their names, the restored step, and how many updates a chief calls lost."""
        found = [loss for chief in self.started["worker:0"] for loss in re.findall(LOST, chief.output)]
        return [(lost, int(restored), count) for lost, restored, count in found]

    def strike(self, blow: Blow) -> threading.Thread | None:
        victim = self.now[blow.task]
        if victim.process.poll() is not None:
            return None
        victim.send(blow.signum)
        if blow.signum == signal.SIGTERM:
            self.all_stop()
            return None
        if blow.secs == NEVER:
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
        # The chief may be another one by now, which only starts: a signal then ends nobody but itself.
        eventually(lambda blow=blow: run.step() >= blow.step, 120, f"step {blow.step}")
        thread = run.strike(blow)
        healing += [thread] if thread else []
    for thread in healing:
        thread.join(30)
    expected = {task: process for task, process in run.now.items() if task != storm.missing}
    told = f"the end of {storm.text()}"
    eventually(lambda: all(p.process.poll() is not None for p in expected.values()), DEADLINE_SECS, told)
    if storm.deserved_end:
        check_failure(storm.text(), expected, storm.deserved_end)
    else:
        stopped = {blow.task for blow in storm.blows if blow.signum == signal.SIGTERM}
        torn = run.torn(storm.blows)
        check_end(storm.text(), expected, run.cluster.model_dir, storm.update, MAX_STEPS, torn, stopped)
    if storm.missing:
        run.now[storm.missing].kill()
    check_orphans(storm.text(), processes)
