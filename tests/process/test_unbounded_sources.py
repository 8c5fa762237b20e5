"""A topic of Kafka's mock cluster, read by real processes that are killed at moments that a seed decides.

Every use of a message adds one to its element of the model's variables.
"""

from __future__ import annotations

import json
import random
import re
import time

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from ps_train.engine.run_directory.cut_checkpoints import read_cuts
from tests.support.data.recording import NAMES
from tests.support.long import long
from tests.support.machine.processes import Process, Processes, TestCluster, eventually
from tests.trials.kills.seeds import asked_seeds

pytest.importorskip("confluent_kafka")

from tests.support.data.kafka import Brokers

COUNT = 1000
PATIENCE_SECS = 300
"""A busy machine needs many times as long as an idle one."""

BEGIN = 1_700_006_400_000  # a full hour
FLAGS = (
    "--model=tests.support.data.kafka:RecordingMessages", f"--model_arg=count={COUNT}", "--model_arg=secs=0.02",
    "--model_arg=end=1", "--sharding=dynamic", "--batch_size=4", "--max_steps=100000", "--log_secs=0.1",
    "--heartbeat_timeout_secs=3", "--startup_timeout_secs=120", "--save_secs=1", "--recovery_timeout_secs=120",
    "--max_batch_wait_secs=0.2",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(3 * PATIENCE_SECS)
@pytest.mark.parametrize("seed", [1, *(long(seed) for seed in asked_seeds(1))])
def test_every_message_is_used_once_although_workers_chief_and_ps_are_killed(processes: Processes, seed: int) -> None:
    brokers, numbers = Brokers(2), list(range(COUNT))
    brokers.send("numbers", [b"x", *numbers[:300], None, *numbers[300:]])
    cluster, started = train_with_kills(processes, brokers, seed)
    values = tf.train.load_checkpoint(str(cluster.model_dir))
    for name in NAMES:
        np.testing.assert_array_equal(values.get_tensor(name), 1)
    assert json.loads((cluster.model_dir / "result.json").read_text())["examples"] == COUNT
    shown = "\n".join(process.output for process in started)
    assert shown.count("topic numbers partition 0 offset 0: 'x', which is not a number; the row is skipped") >= 1


@pytest.mark.long
@pytest.mark.timeout(3 * PATIENCE_SECS)
@pytest.mark.parametrize("seed", [1, *(long(seed) for seed in asked_seeds(1))])
def test_cuts_by_event_time_are_exact_although_workers_chief_and_ps_are_killed(processes: Processes, seed: int) -> None:
    brokers = Brokers(2)
    for number in range(5):  # an hour of messages each
        brokers.send("numbers", range(200 * number, 200 * number + 200), timestamp=BEGIN + number * 3_600_000 + 5)
    cluster, _ = train_with_kills(processes, brokers, seed, "--save_event_secs=3600", "--keep_checkpoints=2")
    cuts = read_cuts(str(cluster.model_dir))
    assert [cut.event_time for cut in cuts] == [BEGIN + hour * 3_600_000 for hour in (3, 4)]
    for cut, count in [*zip(cuts, (600, 800), strict=True), (None, COUNT)]:
        path = cluster.model_dir if cut is None else cluster.model_dir / f"model.ckpt-{cut.step}"
        values = tf.train.load_checkpoint(str(path))
        for name in NAMES:
            np.testing.assert_array_equal(values.get_tensor(name), [1.0] * count + [0.0] * (COUNT - count))


@pytest.mark.long
@pytest.mark.parametrize("topic, start", [("numbers", "latest"), ("empty", "earliest")])
def test_a_topic_without_a_message_before_the_end_is_one_line(processes: Processes, topic: str, start: str) -> None:
    brokers = Brokers()
    brokers.send("numbers", range(8))
    brokers.producer.list_topics(topic="empty", timeout=10)  # makes it
    flags = [*FLAGS, "--num_ps=1", "--num_workers=2", f"--model_arg=servers={brokers.servers}"]
    flags += [f"--model_arg=topic={topic}", f"--model_arg=start={start}", f"--model_dir={processes.directory / 'm'}"]
    run = processes.run(*flags)
    assert run.wait(PATIENCE_SECS) == 2, run.output
    assert f"{topic} had no rows between its start and its end, so nothing was trained" in run.output


def told(tasks: dict[tuple[str, int], Process]) -> str:
    """Returns the last lines of all tasks."""
    return "\n".join("\n".join([f"{name} {index}:", *task.lines[-30:]]) for (name, index), task in tasks.items())


def train_with_kills(
    processes: Processes, brokers: Brokers, seed: int, *more: str
) -> tuple[TestCluster, list[Process]]:
    """Trains on the topic to its end, and kills both workers and a ps on the way; returns all tasks."""
    chance = random.Random(seed)
    update = ("async", "sync")[seed % 2]
    flags = (f"--update={update}", f"--model_arg=servers={brokers.servers}", *(["--model_arg=ones=true"] * (seed % 2)))
    cluster = TestCluster(processes, 2, 2, *FLAGS, *flags, *more)
    names = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)]
    tasks = {name: cluster.start(*name) for name in names}
    started = [*tasks.values()]

    def step() -> int:
        shown = re.findall(r"^step (\d+)/", tasks["worker", 0].output, re.MULTILINE)
        return int(shown[-1]) if shown else 0

    def reach(wanted: int) -> None:
        chief = tasks["worker", 0]
        eventually(lambda: step() >= wanted or chief.process.poll() is not None, PATIENCE_SECS, f"step {wanted}")

    reach(20)
    eventually(lambda: checkpoints_in(str(cluster.model_dir)), PATIENCE_SECS, "a checkpoint")
    for victim in chance.sample([("worker", 0), ("worker", 1), ("ps", chance.randrange(2))], 3):
        reach(step() + chance.randint(5, 30))
        if tasks["worker", 0].process.poll() is not None:
            break  # a ps that comes when the job is over has nothing to do
        time.sleep(chance.uniform(0, 0.3))
        tasks[victim].kill()
        tasks[victim] = cluster.start(*victim)
        started.append(tasks[victim])
        if victim[0] == "worker" and victim[1]:
            continue
        eventually(lambda: step() or tasks["worker", 0].process.poll() is not None, PATIENCE_SECS, "training goes on")
    for name in (("worker", 0), ("ps", 0), ("ps", 1)):
        assert tasks[name].wait(PATIENCE_SECS) == 0, told(tasks)
    return cluster, started
