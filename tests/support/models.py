"""Models for tests, loaded by the processes as `tests.support.models:Name`."""

from __future__ import annotations

import sys
import time

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model


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


class Uneven(Linear):
    """The second worker has input for a few steps only."""

    def __init__(self) -> None:
        super().__init__(count=40 if "--task_index=1" in sys.argv else 40_000)


def paced(features):
    """The same, some milliseconds later."""

    def wait(values):
        time.sleep(0.005)
        return values

    return tf.ensure_shape(tf.numpy_function(wait, [features], features.dtype), features.shape)


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


class Descending(Counting):
    """A loss that every update makes smaller by the same share, whatever the data: it tells how many were made."""

    def loss(self, outputs, labels):
        return outputs + (tf.reduce_sum(tf.square(self.first - 1)) + tf.reduce_sum(tf.square(self.second - 1))) / 2


class Paced(Linear):
    def forward(self, features, training):
        return super().forward(paced(features), training)


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
