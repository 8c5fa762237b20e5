"""A job begins with another training's values: the report, the dry run, the resume that wins, and wrong flags."""

from __future__ import annotations

import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from ps_train.embeddings import positions_of
from tests.support.machine.processes import Processes

MODEL = """
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import ps_train
from ps_train import embeddings


class Net(ps_train.Model):
    def __init__(self, rows: int = 300, name: str = "users"):
        self.rows, self.name = rows, name

    def data(self, split, data_dir):
        return ps_train.Arrays(np.arange(self.rows), np.ones(self.rows, np.float32)) if split == "train" else None

    def forward(self, features, training):
        rows = embeddings.lookup(self.name, features, rows=self.rows, dimension=2)
        return tf.reduce_sum(rows, 1) + tf.get_variable("bias", [])

    def loss(self, outputs, labels):
        return tf.reduce_mean((outputs - labels) ** 2)
"""
FLAGS = ("--num_ps=2", "--num_workers=1", "--model=net:Net", "--optimizer=adagrad", "--learning_rate=0.1")


def value(directory: pathlib.Path, step: int, key: str) -> np.ndarray:
    return tf.train.load_variable(str(directory / f"model.ckpt-{step}"), key)


def by_id(values: np.ndarray) -> np.ndarray:
    return values[positions_of(np.arange(len(values)), len(values))]


@pytest.mark.long
def test_a_job_begins_with_another_trainings_values(processes: Processes) -> None:
    directory = processes.directory
    (directory / "net.py").write_text(MODEL)
    (directory / "names.map").write_text("members = users\n")
    first = processes.run(*FLAGS, "--model_dir=day1", "--max_steps=20")
    assert first.wait(120) == 0, first.output

    day2 = (*FLAGS, "--num_ps=1", "--model_arg=rows=400", "--model_arg=name=members", "--model_dir=day2")
    day2 += ("--max_steps=25", "--warm_start=day1", "--warm_start_map=names.map", "--warm_start_step=keep")
    dry = processes.run(*day2, "--dry_run")
    assert dry.wait(60) == 0, dry.output
    assert any("remapped  members" in line and "300 of 400" in line for line in dry.lines), dry.output
    assert not (directory / "day2").exists()

    second = processes.run(*day2, "--warm_start_report")
    assert second.wait(120) == 0, second.output
    report = (directory / "day2/warm_start.txt").read_text()
    assert all(line in second.output and line in dry.output for line in report.splitlines())
    for key in ("users", "users/Adagrad"):
        begun = value(directory / "day2", 20, key.replace("users", "members"))
        assert np.array_equal(by_id(begun)[:300], by_id(value(directory / "day1", 20, key)))
    assert value(directory / "day2", 20, "bias") == value(directory / "day1", 20, "bias")
    assert value(directory / "day2", 25, "global_step") == 25

    shutil.rmtree(directory / "day1")
    again = processes.run(*day2[:-3], "--max_steps=26", "--warm_start=day1")
    assert again.wait(120) == 0, again.output
    assert any("at step 25; warm_start=" in line and "is not used" in line for line in again.lines), again.output
    assert value(directory / "day2", 26, "global_step") == 26


@pytest.mark.long
def test_wrong_sources_maps_and_steps_are_refused(processes: Processes) -> None:
    directory = processes.directory
    (directory / "net.py").write_text(MODEL)
    old = processes.run(*FLAGS, "--model_dir=old", "--max_steps=20")
    assert old.wait(120) == 0, old.output
    damaged = directory / "damaged"
    shutil.copytree(directory / "old", damaged)
    for file in damaged.glob("*.data-*"):
        os.truncate(file, 10)
    (directory / "foreign").mkdir()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("elsewhere", initializer=1.0)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(directory / "foreign/model.ckpt"))
    (directory / "wrong.map").write_text("userz = users\n")
    for flags, text in (
        (("--warm_start=nowhere",), "nowhere is neither a checkpoint nor a SavedModel"),
        (("--warm_start=damaged",), "no checkpoint in damaged can be read"),
        (("--warm_start=damaged/model.ckpt-20",), "damaged/model.ckpt-20 is damaged or incomplete"),
        (("--warm_start=foreign",), "has no variable that fits one of the model"),
        (
            ("--warm_start=old", "--warm_start_map=wrong.map"),
            "wrong.map:1: the model has no variable userz: the nearest",
        ),
        (("--warm_start=old", "--warm_start_step=keep", "--max_steps=9"), "begins at step 20, and max_steps=9"),
        (("--warm_start_slots=drop",), "is for a warm start: add --warm_start"),
    ):
        wrong = processes.run(*FLAGS, "--max_steps=30", "--model_dir=day3", *flags)
        assert wrong.wait(90) == 2, wrong.output
        assert len([line for line in wrong.lines if text in line]) == 1, wrong.output
        assert "Traceback" not in wrong.output
    assert not list((directory / "day3").glob("model.ckpt*")) if (directory / "day3").exists() else True
