"""A random search over units and learning rate, each trial a job: python examples/keras/random_search.py"""

import random

import keras
import numpy as np

import ps_train.keras

TRIALS = 2


def data(seed, examples):
    x = np.random.default_rng(seed).normal(size=(examples, 4)).astype("float32")
    return x, np.abs(x).sum(axis=1)


def score(units, learning_rate):
    """Trains a model; returns its last validation loss."""
    model = keras.Sequential([keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(learning_rate), loss="mse")
    history = ps_train.keras.fit(
        model, *data(1, 2048), epochs=3, validation_data=data(2, 512), verbose=0, num_ps=1, num_workers=2
    )
    return history.history["val_loss"][-1]


def main():
    choices = random.Random(1)
    found = []
    for _ in range(TRIALS):
        units, learning_rate = choices.choice([16, 32, 64]), 10 ** choices.uniform(-3, -1)
        found.append((score(units, learning_rate), units, learning_rate))
        print(f"units {units} learning rate {learning_rate:.4f}: loss {found[-1][0]:.4f}", flush=True)
    loss, units, learning_rate = min(found)
    print(f"best: units {units}, learning rate {learning_rate:.4f}, loss {loss:.4f}")


if __name__ == "__main__":
    main()
