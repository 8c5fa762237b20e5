"""A convolutional network for images of 32x32x3, as a program of synchronous workers.

python -m ps_train run --num_ps=1 --num_workers=2 examples/keras/images.py

The images are made: a bright square in one of four corners.  The dataset has no end, so an epoch is a number of steps.
"""

import numpy as np
import tensorflow as tf

BATCH, STEPS = 32, 20


def dataset(seed):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 4, 640)
    pixels = random.uniform(0, 0.5, size=(640, 32, 32, 3)).astype("float32")
    for image, label in zip(pixels, labels, strict=True):
        row, column = 16 * (label // 2) + random.integers(8), 16 * (label % 2) + random.integers(8)
        image[row : row + 8, column : column + 8] += 0.5
    return tf.data.Dataset.from_tensor_slices((pixels, labels)).shuffle(640).repeat().batch(BATCH)


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    layers = tf.keras.layers
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                layers.Input([32, 32, 3]),
                layers.Conv2D(8, 3, strides=2, activation="relu"),
                layers.BatchNormalization(),
                layers.Conv2D(16, 3, strides=2, activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(4, activation="softmax"),
            ]
        )
        model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(dataset(1), epochs=3, steps_per_epoch=STEPS)
    print("epochs", len(history.history.get("loss", [])))
    _, accuracy = model.evaluate(dataset(2), steps=STEPS, verbose=0)
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
