"""Jobs without ps of their own (`--ps_on_workers`): their numbers, and the loss of a worker that is a ps."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.machine.processes import Process, Processes

STEPS = 250
ADDING = ("--model=tests.support.models.small:Adding", "--batch_size=32", "--shuffle_buffer=0", "--log_secs=0.1")


def train(processes: Processes, name: str, *flags: str) -> Process:
    """Runs a job on this machine to its end, of two workers unless the flags say otherwise."""
    workers = [] if any(flag.startswith("--num_workers") for flag in flags) else ["--num_workers=2"]
    process = processes.run(*workers, f"--model_dir={processes.directory / name}", *flags)
    assert process.wait(150) == 0, process.output
    assert not processes.orphans()
    return process


def assert_equal(processes: Processes, *names: str) -> None:
    """Checks that the last checkpoints of two runs are equal to the bit."""
    first, second = (values(processes, name) for name in names)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)


def values(processes: Processes, name: str) -> dict[str, np.ndarray]:
    """The last checkpoint, without the ids of its run."""
    reader = tf.train.load_checkpoint(str(processes.directory / name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key != "ps_train/run"}


@pytest.mark.long
@pytest.mark.parametrize(("victim", "update"), [(1, "sync"), long(0, "sync"), long(0, "async"), long(1, "bounded")])
def test_a_worker_that_is_killed_comes_back_as_ps_and_worker_and_the_numbers_are_exact(
    processes: Processes, victim: int, update: str
) -> None:
    flags = [f"--update={update}", f"--max_steps={STEPS}", "--save_steps=50", "--max_restarts=1", *ADDING]
    process = train(processes, "model", "--ps_on_workers", *flags, f"--inject_fault=kill:worker:{victim}@90")
    assert re.search(r"worker:\d was killed|signal 9", process.output), process.output
    assert re.search(rf"ps:{victim} restarted; restored step (\d+)", process.output), process.output
    result = json.loads((processes.directory / "model" / "result.json").read_text())
    assert result["global_step"] == STEPS
    if update != "sync":
        return
    for step, path in checkpoints_in(str(processes.directory / "model")):
        for name in ("first", "second"):
            found = tf.train.load_checkpoint(path).get_tensor(name)
            np.testing.assert_array_equal(found, step * np.arange(1, 4), err_msg=f"{name} at step {step}")


@pytest.mark.long
@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--pull_codec=bfloat16", "--push_codec=int8"),
        ("--num_ps=0", "--towers=2", "--accumulate=2"),
    ],
    ids=" ".join,
)
def test_the_values_are_to_the_bit_those_of_as_many_ps(processes: Processes, flags: tuple[str, ...]) -> None:
    common = ("--update=sync", "--max_steps=60", *(flag for flag in flags if flag != "--num_ps=0"))
    train(processes, "apart", "--num_ps=2", *common)
    train(processes, "here", *(["--ps_on_workers"] if "--num_ps=0" not in flags else ["--num_ps=0"]), *common)
    assert_equal(processes, "apart", "here")


@pytest.mark.long
@pytest.mark.parametrize(("update", "steps", "replicas"), [("sync", 1500, 2), ("async", 6000, 1)])
def test_a_batch_size_that_follows_the_network_is_read_by_the_input_of_a_worker_that_is_a_ps(
    processes: Processes, update: str, steps: int, replicas: int
) -> None:
    flags = (f"--update={update}", "--batch_size=8..32", "--health_limits=sync_share:0.001", f"--max_steps={steps}")
    process = train(processes, "model", "--ps_on_workers", *flags, "--model=tests.support.models.small:Adding")
    assert "batch_size=16 from step" in process.output, process.output
    result = json.loads((processes.directory / "model" / "result.json").read_text())
    assert result["global_step"] == steps
    assert result["examples"] > steps * 8 * replicas


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 3, 4])
def test_any_number_of_workers_makes_the_numbers_of_as_many_ps(processes: Processes, workers: int) -> None:
    """The gradients are whole numbers, so the order in which they arrive does not matter."""
    common = (*ADDING, "--update=sync", "--max_steps=60", f"--num_workers={workers}")
    train(processes, "apart", *common, f"--num_ps={workers}")
    train(processes, "here", *common, "--ps_on_workers")
    assert_equal(processes, "apart", "here")


ODD = """
import numpy as np, tensorflow as tf, tensorflow.compat.v1 as v1
from ps_train import Arrays, Model

class Odd(Model):
    def data(self, split, data_dir):
        random = np.random.default_rng(1)
        words = np.array([b"a", b"bb", b"ccc"])[random.integers(3, size=512)]
        x = random.normal(size=(512, 3)).astype(np.float32)
        return Arrays({"x": x, "word": words}, random.normal(size=512).astype(np.float32))

    def forward(self, features, training):
        ones, zeros = v1.ones_initializer(), v1.zeros_initializer()
        w = v1.get_variable("w", [3, 7], initializer=v1.glorot_uniform_initializer())
        h = tf.matmul(features["x"], w) * v1.get_variable("scalar", [], initializer=ones)
        h = tf.cond(tf.reduce_sum(h) > 0, lambda: h * 2.0, lambda: h - 1.0)
        _, h = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 0.9 + tf.reduce_mean(w)), [0, h])
        h = tf.cast(tf.cast(h, tf.float64) * v1.get_variable("double", [7], tf.float64, ones), tf.float32)
        h = tf.einsum("bi,aicj->bj", h, v1.get_variable("four", [1, 7, 1, 3], initializer=ones))
        h += tf.reduce_sum(v1.get_variable("empty", [0, 3], initializer=zeros))
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([b"a", b"bb"]), tf.constant([1, 2]))
        ids = tf.lookup.StaticHashTable(pairs, 0).lookup(features["word"])
        h = tf.nn.relu(h + tf.gather(v1.get_variable("rows", [4, 3], initializer=ones), ids))
        h += tf.stop_gradient(tf.function(lambda v: tf.numpy_function(lambda a: a * 0, [v], tf.float32))(h))
        if training:
            count = v1.get_variable("count", [], tf.int64, zeros, trainable=False)
            mean = v1.get_variable("mean", [3], initializer=zeros, trainable=False)
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(count, 1))
            moved = 0.9 * mean + 0.1 * tf.reduce_mean(features["x"], 0)
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign(mean, moved))
        return tf.reduce_sum(h, 1)

    def loss(self, outputs, labels):
        return tf.reduce_mean((outputs - labels) ** 2)

    def optimizer(self, name, learning_rate):
        return v1.train.GradientDescentOptimizer(0.001)
"""


@pytest.mark.long
def test_a_run_of_an_odd_model_goes_on_with_ps_of_their_own_and_without(processes: Processes) -> None:
    """Conditions, loops, functions of Python, local tables, state; dtypes and shapes of all kinds."""
    (processes.directory / "odd.py").write_text(ODD)
    layouts = {
        "first": ("--num_ps=2", "--num_ps=0", "--num_ps=3"),
        "second": ("--num_ps=0", "--num_ps=2", "--num_ps=0"),
    }
    for part in range(3):
        for name, layout in layouts.items():
            flags = ("--model=odd:Odd", "--update=sync", "--shuffle_buffer=0", f"--max_steps={20 * (part + 1)}")
            train(processes, name, *flags, layout[part])
        assert_equal(processes, "first", "second")


TABLED = """
import numpy as np, tensorflow as tf, tensorflow.compat.v1 as v1
from ps_train import Model

class Net(Model):
    def data(self, split, data_dir):
        random = np.random.default_rng(1)
        words = np.array([b"a", b"bb", b"ccc"])[random.integers(3, size=512)]
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([b"a", b"bb"]), tf.constant([1, 2], tf.int64))
        table = tf.lookup.StaticHashTable(pairs, 0)
        data = tf.data.Dataset.from_tensor_slices((words, random.normal(size=512).astype(np.float32)))
        self.table = table
        return data.map(lambda word, y: ({"x": tf.cast(table.lookup(word), tf.float32)[None], "word": word}, y))

    def forward(self, features, training):
        again = tf.cast(self.table.lookup(features["word"]), tf.float32) if training else features["x"][:, 0]
        return tf.matmul(features["x"], v1.get_variable("w", [1, 1]))[:, 0] * (1.0 + again)

    def loss(self, outputs, labels):
        return tf.reduce_mean((outputs - labels) ** 2)

    def metrics(self, outputs, labels):
        return {"mse": v1.metrics.mean_squared_error(labels, outputs)}
"""


@pytest.mark.long
@pytest.mark.parametrize("run", ["1", "4"])
def test_a_table_of_the_input_is_used_by_its_functions_and_by_the_model(processes: Processes, run: str) -> None:
    (processes.directory / "tabled.py").write_text(TABLED)
    flags = ("--model=tabled:Net", "--update=sync", "--shuffle_buffer=0", "--max_steps=60", f"--steps_per_run={run}")
    train(processes, "apart", "--num_ps=2", *flags)
    train(processes, "here", "--num_ps=0", *flags)
    assert_equal(processes, "apart", "here")
