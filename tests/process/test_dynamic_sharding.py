"""--sharding=dynamic with real processes that are killed at moments that a seed decides.

Every use of an example adds one to its element of the model's variables, so that the last checkpoint says by its values
whether any was lost or used twice.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.data.rows import write_rows
from tests.support.long import long
from tests.support.machine.processes import Process, Processes, TestCluster, eventually
from tests.trials.kills.seeds import asked_seeds
from tests.trials.storms.verdict import LATE

PATIENCE_SECS = 300
"""A busy machine needs many times as long as an idle one."""

COUNT, EPOCHS = 4000, 2
FLAGS = (
    "--model=tests.support.data.recording:Recording", f"--model_arg=count={COUNT}", "--model_arg=secs=0.02",
    "--sharding=dynamic", "--batch_size=4", f"--epochs={EPOCHS}", "--max_steps=100000", "--log_secs=0.1",
    "--heartbeat_timeout_secs=3", "--startup_timeout_secs=120", "--save_secs=10", "--recovery_timeout_secs=120",
)  # fmt: skip
ALL_STEPS = COUNT * EPOCHS // 4


class Run:
    """A cluster whose processes come and go."""

    def __init__(self, processes: Processes, num_ps: int, num_workers: int, *flags: str) -> None:
        self.cluster = TestCluster(processes, num_ps, num_workers, *FLAGS, *flags)
        self.ps = [self.cluster.start("ps", index) for index in range(num_ps)]
        self.workers = [self.cluster.start("worker", index) for index in range(num_workers)]
        self.dead: set[int] = set()

    def step(self) -> int:
        """The last that the present chief has shown; beyond all where it has ended."""
        chief = self.workers[0]
        if chief.process.poll() is not None:
            assert chief.process.poll() in (0, -signal.SIGKILL), chief.output
            return ALL_STEPS
        shown = re.findall(r"^step (\d+)/", chief.output, re.MULTILINE)
        return int(shown[-1]) if shown else 0

    def reach(self, step: int) -> None:
        eventually(lambda: self.step() >= step, PATIENCE_SECS, f"step {step}")

    def kill(self, index: int) -> None:
        self.workers[index].kill()

    def restart(self, index: int) -> None:
        self.workers[index] = self.cluster.start("worker", index)

    def end(self) -> None:
        for process in self.ps:
            assert process.wait(PATIENCE_SECS) == 0, told(self.workers)
        for index, worker in enumerate(self.workers):
            if index not in self.dead:  # who was started again may come when the job is over, as the chief may
                code = worker.wait(PATIENCE_SECS)
                assert code == 0 or (code == 1 and any(words in worker.output for words in LATE)), told(self.workers)

    def assert_each_was_used(self, times: int) -> None:
        values = tf.train.load_checkpoint(str(self.cluster.model_dir))
        for name in ("first", "second"):
            counts = values.get_tensor(name)
            wrong = np.flatnonzero(counts != times)
            assert not len(wrong), f"{name}: {dict(zip(wrong[:20], counts[wrong[:20]], strict=True))}"


def told(workers: list[Process]) -> str:
    return "\n".join("\n".join(worker.lines[-15:]) for worker in workers)


@pytest.mark.long
@pytest.mark.timeout(3 * PATIENCE_SECS)
@pytest.mark.parametrize(
    "seed, num_ps, update", [long(1, 1, "async"), (2, 2, "async"), long(3, 2, "sync"), long(4, 1, "bounded")]
)
def test_workers_that_are_killed_and_come_back_lose_no_example_and_use_none_twice(
    processes: Processes, seed: int, num_ps: int, update: str
) -> None:
    kill_some(Run(processes, num_ps, 3, f"--update={update}", *ones_for(update)), random.Random(seed))


@pytest.mark.long
@pytest.mark.timeout(3 * PATIENCE_SECS)
@pytest.mark.parametrize("seed, num_ps, update", [long(5, 2, "async"), long(6, 1, "bounded"), long(7, 2, "async")])
def test_rounds_of_workers_that_are_killed_are_applied_as_a_whole_or_not_at_all(
    processes: Processes, seed: int, num_ps: int, update: str
) -> None:
    flags = (f"--update={update}", "--local_steps=5", "--outer_optimizer_arg=learning_rate=1")
    kill_some(Run(processes, num_ps, 3, *flags), random.Random(seed))


@pytest.mark.long
@pytest.mark.timeout(3 * PATIENCE_SECS)
@pytest.mark.parametrize("seed, num_ps, update", [(8, 2, "async"), (9, 1, "bounded")])
def test_rows_of_rounds_of_workers_that_are_killed_are_applied_once(
    processes: Processes, seed: int, num_ps: int, update: str
) -> None:
    flags = (f"--update={update}", "--local_steps=5", "--outer_optimizer_arg=learning_rate=1")
    model = "--model=tests.support.data.recording:RecordingTables"
    kill_some(Run(processes, num_ps, 3, model, *flags), random.Random(seed))


@pytest.mark.timeout(3 * PATIENCE_SECS)
@pytest.mark.parametrize(
    "seed, num_ps, update",
    [long(1, 2, "async"), *(long(seed, 2, ("async", "sync")[seed % 2]) for seed in asked_seeds(1))],
)
def test_every_row_of_parquet_files_is_used_once_although_workers_are_killed(
    processes: Processes, seed: int, num_ps: int, update: str
) -> None:
    pytest.importorskip("pyarrow")
    chance, data = random.Random(seed), processes.directory / "data"
    count = 800
    cuts = [0, *sorted(chance.sample(range(count), 3)), count]
    for first, stop in itertools.pairwise(cuts):
        write_rows(data / f"day={first}" / "part-0.parquet", first, stop, chance.choice([40, 100, 400]))
    flags = ("--model=tests.support.data.rows:RecordingRows", f"--data_dir={data}", f"--update={update}")
    kill_some(Run(processes, num_ps, 3, *flags, f"--model_arg=count={count}", *ones_for(update)), chance, count)


def kill_some(run: Run, chance: random.Random, count: int = COUNT) -> None:
    """Kills every worker once; some come back, and all examples must have been used as often as there are epochs."""
    step, last = 0, count * EPOCHS // 4
    for victim in chance.sample([0, 1, 2], 3):  # 0 is the chief
        step += chance.randint(last // 20, last // 5)
        run.reach(step)
        time.sleep(chance.uniform(0, 0.2))  # not only right after a line was shown
        run.kill(victim)
        if victim == 0 or chance.random() < 0.6:
            run.restart(victim)
        else:
            run.dead.add(victim)
    run.end()
    run.assert_each_was_used(EPOCHS)
    result = json.loads((run.cluster.model_dir / "result.json").read_text())
    assert result["examples"] == count * EPOCHS


@pytest.mark.timeout(3 * PATIENCE_SECS)
@pytest.mark.parametrize("seed, update", [long(1, "async"), long(2, "sync"), long(3, "bounded")])
def test_a_job_that_is_killed_altogether_goes_on_from_its_checkpoint_with_the_examples_that_it_had_not_used(
    processes: Processes, seed: int, update: str
) -> None:
    chance = random.Random(seed)
    flags = (f"--update={update}", "--save_steps=20", "--model_arg=count=2000", *ones_for(update))
    run = Run(processes, 1, 2, *flags)
    for num_ps, num_workers in ((2, 3), (1, 1)):
        before = saved(run)
        eventually(lambda before=before, run=run: saved(run) > before, 120, "a checkpoint")
        time.sleep(chance.uniform(0, 0.5))
        for process in chance.sample([*run.workers, *run.ps], len(run.workers) + len(run.ps)):
            process.kill()
        run = Run(processes, num_ps, num_workers, *flags)
    run.end()
    assert "resumed from" in run.workers[0].output
    run.assert_each_was_used(EPOCHS)


@pytest.mark.long
@pytest.mark.timeout(3 * PATIENCE_SECS)
def test_a_worker_that_sleeps_beyond_its_lease_and_wakes_uses_nothing_twice(processes: Processes) -> None:
    chance = random.Random(7)
    run = Run(processes, 2, 2)
    run.reach(50)
    time.sleep(chance.uniform(0, 0.2))
    run.workers[1].send(signal.SIGSTOP)
    run.workers[0].wait_for("has said nothing for 3s", 60)
    run.reach(run.step() + 100)
    run.workers[1].send(signal.SIGCONT)
    run.end()
    run.assert_each_was_used(EPOCHS)


@pytest.mark.long
@pytest.mark.timeout(3 * PATIENCE_SECS)
def test_after_the_loss_of_a_ps_every_ps_uses_every_example_once(processes: Processes) -> None:
    """Relative to its own part of the checkpoint: the other keeps what is newer."""
    run = Run(processes, 2, 2, "--save_steps=50")
    run.reach(120)
    run.ps[1].kill()
    run.ps[1] = run.cluster.start("ps", 1)
    run.end()
    assert "ps:1 restarted; restored step" in run.workers[0].output
    run.assert_each_was_used(EPOCHS)


def ones_for(update: str) -> list[str]:
    return ["--model_arg=ones=true"] if update == "sync" else []


def saved(run: Run) -> int:
    """The step of the newest checkpoint."""
    return max((step for step, _ in checkpoints_in(str(run.cluster.model_dir))), default=0)
