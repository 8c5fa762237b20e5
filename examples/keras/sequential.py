"""A Sequential model that trains for ten epochs, by ps_train.keras.fit: python examples/keras/sequential.py"""

import keras
import numpy as np

import ps_train.keras


def data(seed, examples):
    x = np.random.default_rng(seed).normal(size=(examples, 8)).astype("float32")
    return x, (x[:, 0] * x[:, 1] > 0).astype("float32")


def main():
    model = keras.Sequential(
        [
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    history = ps_train.keras.fit(
        model,
        *data(1, 2000),
        epochs=10,
        validation_data=data(2, 500),
        callbacks=[keras.callbacks.EarlyStopping("val_loss", patience=3, restore_best_weights=True)],
        num_ps=1,
        num_workers=2,
    )
    print(f"best val_accuracy {max(history.history['val_accuracy']):.3f}")
    model.save("sequential.keras")


if __name__ == "__main__":
    main()
