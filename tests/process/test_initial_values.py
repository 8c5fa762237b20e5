"""A job begins with the values that its model gives, of an array and of another checkpoint, and takes them once."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.embeddings import positions_of
from tests.support.machine.processes import Processes

MODEL = """
import numpy as np
import tensorflow.compat.v1 as tf
import ps_train
from ps_train import embeddings


class Net(ps_train.Model):
    def __init__(self, key="w"):
        self.key = key

    def data(self, split, data_dir):
        return ps_train.Arrays(np.arange(600), np.ones(600, np.float32)) if split == "train" else None

    def forward(self, features, training):
        given = np.arange(1200, dtype=np.float32).reshape(600, 2) / 1200
        rows = embeddings.lookup("t", features, rows=600, dimension=2, initializer=tf.constant_initializer(given))
        w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        tf.train.init_from_checkpoint("old/model.ckpt", {self.key: "w"})
        return tf.reduce_sum(rows * w, 1)

    def loss(self, outputs, labels):
        return tf.reduce_mean((outputs - labels) ** 2)
"""
GIVEN = np.arange(1200, dtype=np.float32).reshape(600, 2) / 1200
FLAGS = ("--num_ps=2", "--num_workers=1", "--model=net:Net", "--model_dir=new", "--optimizer=sgd")


def write_old(directory: pathlib.Path, values: list[float]) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("w", initializer=tf.constant(values))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(directory / "old" / "model.ckpt"))


@pytest.mark.long
def test_a_job_begins_with_given_rows_and_another_checkpoint_and_resumes_with_its_own(processes: Processes) -> None:
    directory = processes.directory
    (directory / "net.py").write_text(MODEL)
    write_old(directory, [5.0, -3.0])

    def value(step: int, key: str) -> np.ndarray:
        return tf.train.load_variable(str(directory / "new" / f"model.ckpt-{step}"), key)

    wrong = processes.run(*FLAGS, "--max_steps=2", "--model_arg=key=v")
    assert wrong.wait(60) == 2, wrong.output
    assert any("Tensor v is not found in old/model.ckpt checkpoint" in line for line in wrong.lines), wrong.output
    assert not (directory / "new/checkpoint").exists()

    first = processes.run(*FLAGS, "--num_workers=2", "--max_steps=2", "--learning_rate=0.001")
    assert first.wait(90) == 0, first.output
    assert value(0, "w").tolist() == [5.0, -3.0]
    assert np.array_equal(value(0, "t")[positions_of(np.arange(600), 600)], GIVEN)
    assert value(2, "w").tolist() != [5.0, -3.0]

    write_old(directory, [100.0, 100.0])
    again = processes.run(*FLAGS, "--max_steps=3", "--learning_rate=0.001")
    assert again.wait(90) == 0, again.output
    assert np.abs(value(3, "w") - value(2, "w")).max() < 1 and value(3, "global_step") == 3
