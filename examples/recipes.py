"""Small models to copy from: batch norm, Keras layers, group metrics, a learning-rate schedule, summaries, a hook.

python -m ps_train --model=examples.recipes:BatchNorm --max_steps=500
"""

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train


class Curve(ps_train.Model):
    """y = sin(x) from its noisy points; the models below change one thing each."""

    default_optimizer = "adam"
    default_learning_rate = 0.01

    def data(self, split, data_dir):
        random = np.random.default_rng(1 if split == "train" else 2)
        x = random.uniform(-3, 3, size=(4000, 1)).astype(np.float32)
        return ps_train.Arrays(x, np.sin(x) + random.normal(0, 0.1, size=(4000, 1)).astype(np.float32))

    def forward(self, features, training):
        w1, b1 = v1.get_variable("w1", [1, 32]), v1.get_variable("b1", [32])
        w2, b2 = v1.get_variable("w2", [32, 1]), v1.get_variable("b2", [1])
        return tf.nn.tanh(features @ w1 + b1) @ w2 + b2

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.square(outputs - labels))

    def metrics(self, outputs, labels):
        return {"mse": v1.metrics.mean_squared_error(labels, outputs)}


def batch_norm(x, training, momentum=0.9):
    size = x.shape[-1]
    scale = v1.get_variable("scale", [size], initializer=v1.ones_initializer())
    offset = v1.get_variable("offset", [size], initializer=v1.zeros_initializer())
    mean = v1.get_variable("mean", [size], initializer=v1.zeros_initializer(), trainable=False)
    variance = v1.get_variable("variance", [size], initializer=v1.ones_initializer(), trainable=False)
    if training:
        batch_mean, batch_variance = tf.nn.moments(tf.cast(x, mean.dtype), axes=[0])
        for average, value in ((mean, batch_mean), (variance, batch_variance)):
            update = v1.assign_sub(average, (1 - momentum) * (average - value))
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        mean, variance = batch_mean, batch_variance
    mean, variance = tf.cast(mean, x.dtype), tf.cast(variance, x.dtype)
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)


class BatchNorm(Curve):
    def forward(self, features, training):
        w1 = v1.get_variable("w1", [1, 32])
        hidden = batch_norm(tf.cast(features, w1.dtype) @ w1, training)
        return tf.nn.tanh(hidden) @ v1.get_variable("w2", [32, 1]) + v1.get_variable("b2", [1])


class KerasLayers(Curve):
    def forward(self, features, training):
        hidden = tf.keras.layers.Dense(32, activation="tanh", name="hidden")(features)
        if training:
            hidden = tf.nn.dropout(hidden, rate=0.05)
        return tf.keras.layers.Dense(1, name="output")(hidden)


class GroupMetrics(Curve):
    def forward(self, features, training):
        return {"height": super().forward(features, training), "group": tf.cast(features * 2, tf.int64)}

    def loss(self, outputs, labels):
        return super().loss(outputs["height"], labels)

    def metrics(self, outputs, labels):
        found = ps_train.metrics.grouped_auc(labels > 0.5, outputs["height"], outputs["group"])
        return {**super().metrics(outputs["height"], labels), "grouped_auc": found}


class Schedule(Curve):
    def optimizer(self, name, learning_rate):
        rate = v1.train.exponential_decay(learning_rate, v1.train.get_global_step(), 100, 0.9)
        return v1.train.AdamOptimizer(rate)


class Summaries(Curve):
    def forward(self, features, training):
        outputs = super().forward(features, training)
        v1.summary.histogram("outputs", outputs)
        return outputs


class Crossed(Curve):
    default_optimizer = "lazy_adam"

    def data(self, split, data_dir):
        random = np.random.default_rng(1 if split == "train" else 2)
        price, country = random.lognormal(2, 2, 4000).astype(np.float32), random.integers(0, 5, 4000)
        y = np.sin(country * np.floor(np.log2(1 + price))) + random.normal(0, 0.1, 4000)
        return ps_train.Arrays({"price": price, "country": country}, y.astype(np.float32)[:, None])

    def forward(self, features, training):
        pair = ps_train.features.cross(ps_train.features.log_buckets(features["price"]), features["country"])
        return ps_train.embeddings.lookup("pairs", pair, capacity=500, dimension=1)


class PrintError(v1.train.SessionRunHook):
    """Prints the greatest error of a batch now and then."""

    def __init__(self, error):
        self.error, self.calls = error, 0

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self.error)

    def after_run(self, run_context, run_values):
        if self.calls % 10 == 0:
            print(f"greatest error {run_values.results:.3f}", flush=True)
        self.calls += 1


class OwnHook(Curve):
    def loss(self, outputs, labels):
        self.error = tf.reduce_max(tf.abs(outputs - labels))
        return super().loss(outputs, labels)

    def hooks(self):
        return [PrintError(self.error)]
