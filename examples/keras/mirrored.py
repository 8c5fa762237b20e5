"""A MirroredStrategy with validation data and a schedule.

python -m ps_train run --num_ps=1 --num_workers=2 examples/keras/mirrored.py
"""

import numpy as np
import tensorflow as tf

GLOBAL_BATCH = 64


def dataset(seed, examples):
    x = np.random.default_rng(seed).normal(size=(examples, 10)).astype("float32")
    y = x @ np.linspace(-1, 1, 10).astype("float32")[:, np.newaxis]
    return tf.data.Dataset.from_tensor_slices((x, y)).cache().batch(GLOBAL_BATCH)


def main():
    strategy = tf.distribute.MirroredStrategy()
    print("number of devices", strategy.num_replicas_in_sync)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])
        model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
    schedule = tf.keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.2 if epoch < 2 else 0.05)
    history = model.fit(dataset(1, 1280), epochs=3, validation_data=dataset(2, 320), callbacks=[schedule])
    print("recorded", *sorted(history.history))
    print(f"test mse {model.evaluate(dataset(3, 320), verbose=0)[0]:.4f}")


if __name__ == "__main__":
    main()
