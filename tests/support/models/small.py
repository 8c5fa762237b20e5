"""Models for tests, loaded by the processes as `tests.support.models.small:Name`."""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, metrics
from ps_train.data.stream import Stream
from ps_train.features import position_bias


class Linear(Model):
    """y = x @ w + b on `count` examples, the test split the same as the training split."""

    default_learning_rate = 0.1

    def __init__(self, count: int = 64, width: int = 3) -> None:
        self.count, self.width = count, width

    def data(self, split: str, data_dir: str) -> Arrays:
        generator = np.random.default_rng(7)
        x = generator.normal(size=(self.count, self.width)).astype(np.float32)
        y = (x @ np.arange(1, self.width + 1) + 0.5).astype(np.float32)
        return Arrays(x, y)

    def forward(self, features, training):
        w = v1.get_variable("w", [self.width, 1])
        b = v1.get_variable("b", [], initializer=v1.zeros_initializer())
        return tf.squeeze(features @ w, 1) + b

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.square(outputs - labels))


class Heavy(Linear):
    """Has weights of more than 1 MiB, whose gradients travel alone."""

    def __init__(self, count: int = 24, width: int = 300_000) -> None:
        super().__init__(count, width)

    def data(self, split: str, data_dir: str) -> Arrays:
        generator = np.random.default_rng(7)
        x = generator.normal(size=(self.count, self.width)) / np.sqrt(self.width)
        return Arrays(x.astype(np.float32), generator.normal(size=self.count).astype(np.float32))


class Raises(Linear):
    """Fails in the user's own code."""

    def forward(self, features, training):
        raise KeyError("my own mistake")


class Diverges(Linear):
    """Its loss becomes infinite, then NaN."""

    default_learning_rate = 50.0


class Vector(Linear):
    def loss(self, outputs, labels):
        return tf.square(outputs - labels)


class FailsLater(Linear):
    """An operation of the user's fails in the middle of training."""

    def loss(self, outputs, labels):
        loss = super().loss(outputs, labels)
        with tf.control_dependencies([tf.debugging.Assert(loss > 1.0, ["my own assertion"])]):
            return tf.identity(loss)


class Hangs(Linear):
    """The second worker's input stops coming after a while, without an end."""

    def data(self, split: str, data_dir: str):
        arrays = super().data(split, data_dir)
        hang = "--task_index=1" in sys.argv

        def wait(number):
            if hang and number >= 500:
                time.sleep(3600)
            return number

        def example(number):
            number = tf.numpy_function(wait, [number], tf.int64)
            row = tf.reshape(number % self.count, [])
            return tf.constant(arrays.features)[row], tf.constant(arrays.labels)[row]

        return tf.data.Dataset.range(10**9).map(example)


class Late(Linear):
    """The second worker needs ten seconds before it even looks for the ps."""

    def __init__(self) -> None:
        super().__init__()
        if "--task_index=1" in sys.argv:
            time.sleep(10)


class OneLargeShard(Stream):
    """Arrays of which the first shard has all rows but the first 40, and the second those."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def chunks(self, shard, seed):
        rows = {1: slice(None), 2: [slice(40, None), slice(40)][shard.index]}[shard.count]
        return tf.data.Dataset.from_tensors((self.arrays.features[rows], self.arrays.labels[rows]))


class Uneven(Linear):
    """The second worker has input for a few steps only."""

    def __init__(self) -> None:
        super().__init__(count=40_000)

    def data(self, split, data_dir):
        return OneLargeShard(super().data(split, data_dir))


class Timed(Linear):
    """Writes the time of each of its training steps, between pull and push, into a file of its process."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self.path = f"{directory}/{os.getpid()}"

    def forward(self, features, training):
        def note(values):
            with open(self.path, "a") as file:
                file.write(f"{time.time()}\n")
            return values

        noted = tf.numpy_function(note, [features], features.dtype) if training else features
        return super().forward(tf.ensure_shape(noted, features.shape), training)


def paced(features, secs=0.005):
    """The same, some milliseconds later."""

    def wait(values):
        time.sleep(secs)
        return values

    return tf.ensure_shape(tf.numpy_function(wait, [features], features.dtype), features.shape)


class Paced(Linear):
    """Trains at 50 steps/s or less: a job without an end that leaves the machine to others."""

    def forward(self, features, training):
        return super().forward(paced(features, 0.02), training)


class Counting(Linear):
    """Every update adds 1 to every element of its two variables, whatever the data."""

    default_learning_rate = 1.0
    default_optimizer = "sgd"

    def forward(self, features, training):
        self.first = v1.get_variable("first", [4], initializer=v1.zeros_initializer())
        self.second = v1.get_variable("second", [3], initializer=v1.zeros_initializer())
        return tf.reduce_sum(paced(features)) * 0.0

    def loss(self, outputs, labels):
        return outputs + 8.0 - tf.reduce_sum(self.first) - tf.reduce_sum(self.second)


class SlowCounting(Counting):
    """The same at 25 steps/s or less, so that a fault of some seconds strikes the same steps on each machine."""

    def forward(self, features, training):
        return super().forward(paced(features, 0.035), training)


class SlowEnd(Counting):
    """The same, with a listener that takes 4 s after the last checkpoint."""

    def saving_listeners(self):
        return [SlowListener()]


class SlowListener(v1.train.CheckpointSaverListener):
    def end(self, session, global_step_value):
        print("the end begins", flush=True)
        time.sleep(4)


class Adding(Linear):
    """An update of the mean gradient of all data adds exactly j + 1 to element j of each of two variables.

    All numbers are small integers, which float32 adds exactly: one update too many, one too few, and one that is made
    of other examples leave their trace in the values for good.
    """

    default_learning_rate = 1.0
    default_optimizer = "sgd"

    def data(self, split, data_dir):
        columns = np.arange(1, self.width + 1)
        above = np.random.default_rng(7).integers(-40, 40, size=(self.count // 2, self.width))
        return Arrays(np.concatenate([columns + above, columns - above]).astype(np.float32), np.zeros(self.count, "f"))

    def forward(self, features, training):
        names = ("first", "second")
        variables = [v1.get_variable(name, [self.width], initializer=v1.zeros_initializer()) for name in names]
        return -tf.linalg.matvec(paced(features), variables[0] + variables[1])

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs)


class Drawing(Counting):
    """Every process says what it draws of numpy's numbers."""

    def data(self, split, data_dir):
        print(f"drew {np.random.random()}")
        return super().data(split, data_dir)


class Scored(Counting):
    """Its test data are the numbers below 5000; worker 1 never gets them if it `hangs`, has an error if it `fails`."""

    def __init__(self, trouble: str = "") -> None:
        super().__init__()
        self.trouble = trouble

    def data(self, split, data_dir):
        if split == "train":
            return super().data(split, data_dir)
        if self.trouble and "--task_index=1" in sys.argv:
            while self.trouble == "hangs":
                time.sleep(1)
            raise KeyError("no test data here")
        numbers = tf.data.Dataset.range(5000)
        return numbers.map(lambda number: (tf.zeros([3]), tf.cast(number, tf.float32)))

    def metrics(self, outputs, labels):
        return {"mean_square": v1.metrics.mean(tf.square(labels))}


class RunsOutOfMemory(Linear):
    """An operation of the user's asks for more memory than there is, after some steps."""

    def loss(self, outputs, labels):
        loss = super().loss(outputs, labels)
        length = tf.cast(tf.where(loss > 1.0, 1.0, 2.0**50), tf.int64)
        return loss + 0.0 * tf.reduce_sum(tf.zeros(length[tf.newaxis]))


class RaisesLater(Linear):
    """The user's own Python code, called by an operation, raises after some steps; its message has two lines."""

    def loss(self, outputs, labels):
        loss = super().loss(outputs, labels)

        def check(value):
            if value < 1.0:
                raise ValueError("my first line\nmy second line")
            return value

        return loss + 0.0 * tf.ensure_shape(tf.numpy_function(check, [tf.stop_gradient(loss)], tf.float32), [])


class Ordered(Counting):
    """Every process says which examples each of its steps trains on: `examples [4, 0, 7]`."""

    def data(self, split, data_dir):
        numbers = np.arange(400, dtype=np.float32)
        return Arrays(np.repeat(numbers[:, np.newaxis], 3, axis=1), numbers)

    def forward(self, features, training):
        def say(values):
            print(f"examples {values[:, 0].astype(int).tolist()}", flush=True)
            return values

        said = tf.numpy_function(say, [features], features.dtype) if training else features
        return super().forward(tf.ensure_shape(said, features.shape), training) * 0.0


class Remembering(Counting):
    """Looks its words up in a table and counts its calls in a local variable; fails where the count goes back."""

    most_calls = 0

    def forward(self, features, training):
        words = tf.lookup.KeyValueTensorInitializer(["zero", "eight"], [0.0, 8.0])
        zero = tf.lookup.StaticHashTable(words, 1.0).lookup(tf.constant("zero"))
        local = [v1.GraphKeys.LOCAL_VARIABLES]
        calls = v1.get_variable("calls", [], tf.int64, v1.zeros_initializer(), trainable=False, collections=local)
        counted = calls.assign_add(1, read_value=True)
        if training:
            counted = tf.numpy_function(self.check, [counted], tf.int64)
        return super().forward(features, training) + zero + 0 * tf.cast(tf.reshape(counted, []), tf.float32)

    def check(self, calls):
        assert calls > self.most_calls, f"the {calls}th call after {self.most_calls}"
        self.most_calls = int(calls)
        return calls


MARKER = b"THESE-ARE-THE-BYTES-OF-A-PARAMETER.." * 8


class Marked(Linear):
    """A variable that is pulled in each step and never changes: its bytes can be found in packets."""

    def forward(self, features, training):
        marker = v1.get_variable("marker", initializer=np.frombuffer(MARKER, np.float32))
        return super().forward(features, training) + 0.0 * tf.reduce_sum(marker)


class LegacyLayers(Linear):
    """Layers that TensorFlow has only with tf-keras.  The mean of what is normalized is 1."""

    def forward(self, features, training):
        ones = v1.layers.batch_normalization(tf.ones_like(features), training=training, name="norm")
        hidden = v1.layers.dropout(features + ones, 0.1, training=training)
        cell = v1.nn.rnn_cell.GRUCell(2, name="cell")
        _, state = v1.nn.dynamic_rnn(cell, hidden[:, :, tf.newaxis], dtype=tf.float32)
        return v1.layers.dense(tf.concat([hidden, state], 1), 1, name="dense")[:, 0]


class SlowToBuild(Linear):
    """Takes so many seconds of the environment to build, the first time."""

    def forward(self, features, training):
        time.sleep(float(os.environ.pop("BUILD_SECS", "0")))
        return super().forward(features, training)


class Divided(Model):
    """One weight; the test split has examples of five values of a field, with one that has no clicks."""

    def __init__(self, count: int = 50_000) -> None:
        self.count = count

    def data(self, split, data_dir):
        count = self.count if split == "test" else 64
        random = np.random.default_rng(4)
        kind = random.choice(5, count, p=[0.4, 0.3, 0.15, 0.1, 0.05])
        x = random.normal(size=count).astype(np.float32)
        clicks = (random.random(count) < 1 / (1 + np.exp(-x * kind))) & (kind > 0)
        names = np.array(["nowhere", "fr", "de", "\N{LATIN SMALL LETTER E WITH ACUTE}\n", "us"])[kind]
        fields = {"x": x, "country": names, "kind": kind, "column": kind[:, np.newaxis] > 2, "user": kind * 7}
        return Arrays(fields, clicks.astype(np.float32))

    def forward(self, features, training):
        self.x = features["x"]
        return {
            "logits": features["x"] + 0.0 * v1.get_variable("w", []),
            "user": features["user"],
            "fixed": tf.zeros(5),
        }

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.square(outputs["logits"] - labels))

    def metrics(self, outputs, labels):
        largest = v1.get_local_variable("largest", initializer=0.0, collections=[v1.GraphKeys.METRIC_VARIABLES])
        update = largest.assign(tf.maximum(largest, tf.reduce_max(outputs["logits"])))
        return {
            "mean": v1.metrics.mean(outputs["logits"]),
            "largest": (largest.read_value(), update),
            "grouped_auc": metrics.grouped_auc(labels, outputs["logits"], outputs["user"]),
        }


class UsesAnotherTensor(Divided):
    def metrics(self, outputs, labels):
        return {"mean": v1.metrics.mean(self.x)}


class Positioned(Model):
    """Clicks that depend on a number, and on the position at which it is shown."""

    default_optimizer, default_learning_rate = "adagrad", 0.3

    def data(self, split, data_dir):
        random = np.random.default_rng(1 if split == "train" else 2)
        x, position = random.normal(size=20_000).astype(np.float32), random.integers(0, 5, 20_000)
        clicks = random.random(20_000) < 1 / (1 + np.exp(-(2 * x + 1 - position)))
        return Arrays({"x": x, "position": position}, clicks.astype(np.float32))

    def forward(self, features, training):
        w, b = (v1.get_variable(name, [], initializer=v1.zeros_initializer()) for name in "wb")
        return w * features["x"] + b + position_bias(features["position"], 5, training)

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def predictions(self, outputs):
        return {"logits": outputs}
