"""A recipe that was copied and changed: a deep interest network on Parquet files, with open vocabularies.

    python examples/my_din.py data                                  # makes small files to try it with
    python -m ps_train --model=examples.my_din:MyDin --data_dir=data --batch_size=128 --export_dir=export

`ps_train/models/din.py` is the recipe.  Three things are changed: `data()` reads files, the tables take any ids, and
a user's own vector joins the inputs.  The layers stay.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf

import ps_train
from ps_train import embeddings, metrics
from ps_train.models import din
from ps_train.models.layers import attention_pooling, perceptron


class MyDin(ps_train.Model):
    default_optimizer = "lazy_adam"
    default_learning_rate = 0.01

    def __init__(self, dimension: int = 8, items: int = 10_000, users: int = 10_000):
        self.items = embeddings.Table("items", dimension, capacity=items)
        self.users = embeddings.Table("users", dimension, capacity=users, admit_after=2)

    def data(self, split, data_dir):
        """A column of lists, such as `seen`, is ragged."""
        return ps_train.Parquet(f"{data_dir}/{split}.parquet", columns=["user", "item", "seen"], label="click")

    def forward(self, features, training):
        """The logit of a click, [batch]."""
        item, seen = embeddings.lookup(self.items, features["item"]), features["seen"]
        interest = attention_pooling(item, seen.with_values(embeddings.lookup(self.items, seen.values)), (32,))
        user = embeddings.lookup(self.users, features["user"])
        return tf.squeeze(perceptron(tf.concat([user, item, interest, item * interest], 1), [32], outputs=1), 1)

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs, labels):
        return metrics.of_clicks(labels, outputs)

    def predictions(self, outputs):
        return {"probabilities": tf.sigmoid(outputs)}


def make_files(directory):
    """Writes train.parquet and test.parquet with the data of the recipe, and users who have no effect."""
    import pyarrow
    import pyarrow.parquet

    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        features, clicks, _ = din.planted(split)
        users = np.random.default_rng(9).integers(0, 500, len(clicks))
        columns = {"user": users, "item": features["item"], "seen": features["history"], "click": clicks}
        pyarrow.parquet.write_table(pyarrow.table(columns), f"{directory}/{split}.parquet")


if __name__ == "__main__":
    make_files(sys.argv[1])
