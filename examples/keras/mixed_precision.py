"""A global policy of mixed precision: layers compute in bfloat16, the ps keep float32.

python -m ps_train run --num_ps=1 --num_workers=2 examples/keras/mixed_precision.py
"""

import numpy as np
import tensorflow as tf


def data(seed, examples):
    x = np.random.default_rng(seed).normal(size=(examples, 16)).astype("float32")
    return x, np.argmax(x[:, :3], axis=1)


def main():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(64, activation="relu"),
                tf.keras.layers.Dense(3),
                tf.keras.layers.Activation("softmax", dtype="float32"),
            ]
        )
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(*data(1, 4096), epochs=4, batch_size=64)
    dense = model.layers[0]
    print("computes", dense.compute_dtype, "keeps", dense.variable_dtype)
    _, accuracy = model.evaluate(*data(2, 1024), verbose=0)
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
