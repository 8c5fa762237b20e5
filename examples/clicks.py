"""A model to copy: will this advertisement be clicked?  Logistic regression on features that are made up here.

python -m ps_train --model=examples.clicks:Clicks --model_arg=hidden=32
"""

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train


class Clicks(ps_train.Model):
    default_optimizer = "adagrad"
    default_learning_rate = 0.1

    def __init__(self, hidden: int = 16):
        self.hidden = hidden

    def data(self, split, data_dir):
        """All examples of a split; each worker is given its own share of them, shuffled and batched."""
        random = np.random.default_rng(1 if split == "train" else 2)
        user, advert = random.normal(size=(2, 20_000, 8)).astype(np.float32)
        clicked = (np.sum(user * advert, axis=1) + random.logistic(size=20_000) > 0).astype(np.float32)
        return ps_train.Arrays({"user": user, "advert": advert}, clicked)

    def forward(self, features, training):
        """The logit of a click, [batch]."""
        both = tf.concat([features["user"], features["advert"], features["user"] * features["advert"]], axis=1)
        w1 = v1.get_variable("w1", [24, self.hidden])
        b1 = v1.get_variable("b1", [self.hidden], initializer=v1.zeros_initializer())
        w2 = v1.get_variable("w2", [self.hidden, 1])
        return tf.squeeze(tf.nn.relu(both @ w1 + b1) @ w2, axis=1)

    def loss(self, outputs, labels):
        """The mean over the batch."""
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs, labels):
        clicked = labels > 0.5
        return {
            "auc": v1.metrics.auc(clicked, tf.sigmoid(outputs)),
            "accuracy": v1.metrics.accuracy(clicked, outputs > 0),
        }
