"""A model of users and items, on parameter servers, with checkpoints of tf.train.CheckpointManager.

python -m ps_train run --num_ps=1 --num_workers=2 examples/keras/recommend.py

The table of users is 1 MiB, so only the rows of a batch travel.
"""

import numpy as np
import tensorflow as tf

USERS, ITEMS, WIDTH = 16_384, 1_000, 16


def ratings(seed, examples):
    random = np.random.default_rng(seed)
    user, item = random.integers(0, USERS, examples), random.integers(0, ITEMS, examples)
    liked = (user % 7 + item % 5 + random.normal(size=examples) > 5).astype("float32")
    return {"user": user, "item": item}, liked


def network():
    user, item = (tf.keras.Input([], dtype="int64", name=name) for name in ("user", "item"))
    embedding = tf.keras.layers.Embedding
    vectors = [embedding(USERS, WIDTH, name="users")(user), embedding(ITEMS, WIDTH, name="items")(item)]
    hidden = tf.keras.layers.Dense(32, activation="relu", name="hidden")(tf.keras.layers.concatenate(vectors))
    output = tf.keras.layers.Dense(1, activation="sigmoid", name="output")(hidden)
    return tf.keras.Model({"user": user, "item": item}, output)


class Checkpoints(tf.keras.callbacks.Callback):
    """Saves at the end of each epoch, and keeps the last five."""

    def on_train_begin(self, logs=None):
        checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.model.optimizer)
        self.manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=5)

    def on_epoch_end(self, epoch, logs=None):
        self.manager.save(epoch + 1)


def main():
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    with strategy.scope():
        model = network()
        model.compile(tf.keras.optimizers.Adagrad(0.1), "binary_crossentropy", metrics=["AUC"])
    model.fit(*ratings(1, 16_384), batch_size=256, epochs=6, callbacks=[Checkpoints()])
    print("newest checkpoint", tf.train.latest_checkpoint("checkpoints"))


if __name__ == "__main__":
    main()
