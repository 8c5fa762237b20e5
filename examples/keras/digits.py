"""A perceptron for images of 28x28 digits, as a program of tf.distribute.

python -m ps_train run --num_ps=1 --num_workers=2 examples/keras/digits.py

The digits are those that ship with ps_train, 8x8, made larger.
"""

import numpy as np
import tensorflow as tf

from ps_train.data import digits


def images(split):
    pixels, labels = digits.load(split)
    enlarged = np.kron(pixels.reshape(-1, 8, 8), np.ones([1, 3, 3]))
    return np.pad(enlarged, [(0, 0), (2, 2), (2, 2)]).astype("float32"), labels


def main():
    x_train, y_train = images("train")
    x_test, y_test = images("test")
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input([28, 28]),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(128, activation="relu"),
                tf.keras.layers.Dropout(0.2),
                tf.keras.layers.Dense(10),
            ]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    model.fit(x_train, y_train, epochs=5)
    _, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
