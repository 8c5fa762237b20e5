"""Jobs with local steps, as users start them: their ends, their resumes, and what is not possible."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.support.long import long
from tests.support.machine.processes import Process, Processes

DIGITS = ("--num_ps=1", "--num_workers=2", "--save_secs=0", "--save_steps=1000")


def train(processes: Processes, directory: pathlib.Path, *flags: str) -> tuple[Process, dict]:
    job = processes.run(*DIGITS, f"--model_dir={directory}", *flags)
    assert job.wait(180) == 0, job.output
    return job, json.loads((directory / "result.json").read_text())


@pytest.mark.parametrize(
    "update", ["--update=sync", long("--update=async"), long("--update=bounded"), long("--update=sync --ps_on_workers")]
)
def test_a_job_learns_ends_at_its_step_and_goes_on_with_fresh_slots(
    processes: Processes, tmp_path: pathlib.Path, update: str
) -> None:
    flags = [*update.split(), "--local_steps=8"]
    if "ps_on_workers" in update:
        flags.append("--num_ps=0")
    job, result = train(processes, tmp_path / "run", *flags, "--max_steps=203")
    assert result["global_step"] == 203 and result["metrics"]["accuracy"] > 0.9
    assert result["examples"] == 203 * 32 * (2 if "sync" in update and "async" not in update else 1)
    assert "local 8" in job.output and "rounds" in job.output
    again, result = train(processes, tmp_path / "run", *flags, "--outer_optimizer=nesterov", "--max_steps=250")
    assert result["global_step"] == 250
    assert "at step 203; each worker's own optimizer begins with fresh slots" in again.output


ENDLESS = """
import tensorflow as tf
import ps_train
from ps_train.data import Row, UnboundedSource

class Log(UnboundedSource):
    def partitions(self):
        return 3

    def read(self, partition, offset, n):
        return [Row(b"%d" % number, number) for number in range(offset, min(offset + n, 320))]

class Net(ps_train.Model):
    default_optimizer, default_learning_rate = "sgd", 0.1

    def data(self, split, data_dir):
        return Log("log", self.parse) if split == "train" else None

    def parse(self, values):
        number = tf.strings.to_number(values)
        return number / 320, number / 160

    def forward(self, features, training):
        return features * tf.compat.v1.get_variable("w", [])

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.square(outputs - labels))
"""


@pytest.mark.parametrize(
    "flags",
    [
        ("--update=async", "--num_workers=1", "--local_steps=8"),
        long(("--update=async", "--num_workers=1", "--local_steps=50")),
        long(("--update=sync", "--num_workers=2", "--local_steps=4")),
    ],
)
def test_rounds_of_several_partitions_without_an_end_are_used(
    processes: Processes, tmp_path: pathlib.Path, flags: tuple[str, ...]
) -> None:
    """A worker reads its partitions in turn, so a partition comes several times in a round."""
    (processes.directory / "endless.py").write_text(ENDLESS)
    job = ("--model=endless:Net", "--sharding=dynamic", "--max_batch_wait_secs=1", "--batch_size=32")
    steps = 20 if "--update=async" in flags else 8
    _, result = train(processes, tmp_path / "run", *job, *flags, f"--max_steps={steps}")
    assert result["global_step"] == steps and result["dropped"] == 0
    # A worker that has no rows yet is left out of a round.
    assert steps * 32 <= result["examples"] <= steps * 32 * (2 if "--update=sync" in flags else 1)


def test_workers_that_end_their_rounds_by_time_make_all_steps(processes: Processes, tmp_path: pathlib.Path) -> None:
    _, result = train(
        processes, tmp_path / "run", "--update=sync", "--local_steps=64", "--round_secs=0.02", "--max_steps=300"
    )
    assert result["global_step"] == 300


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--local_steps=0"], "local_steps=0 (from the command line) is not valid: use a whole number of 1 to"),
        (["--inner_state=fresh"], "inner_state=fresh (from the command line) is for local steps: add --local_steps"),
        (["--local_steps=4", "--prefetch_pulls=1"], "prefetch_pulls=1 (from the command line) is not possible with"),
        (["--local_steps=4", "--outer_optimizer=adam"], "use one of sgd, nesterov, elastic"),
        (["--local_steps=4", "--outer_optimizer_arg=momentum=0.5"], "momentum (from the command line) is not an"),
        (
            ["--local_steps=4", "--outer_optimizer=elastic", "--model=ps_train.models.criteo:WideAndDeep"],
            "outer_optimizer=elastic (from the command line) is not possible with tables (",
        ),
        (
            ["--local_steps=4", "--model=ps_train.models.dcn:Dcn"],
            "local steps are not possible with LazyAdam for table fields: ",
        ),
    ],
)
def test_what_is_not_possible_is_one_line(processes: Processes, flags: list[str], words: str) -> None:
    job = processes.run(*flags, "--num_workers=1", "--max_steps=10")
    assert job.wait(120) == 2, job.output
    assert words in job.output
