"""keras-tuner with jobs of ps_train as its trials: python examples/keras/tuner.py

It needs pip install keras-tuner.
"""

import keras
import keras_tuner
import numpy as np

import ps_train.keras


class Search(keras_tuner.HyperModel):
    def build(self, hp):
        layers = [keras.layers.Dense(hp.Int("units", 16, 64, step=16), "relu"), keras.layers.Dense(1, "sigmoid")]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.Adagrad(0.1), "binary_crossentropy", metrics=["AUC"])
        return model

    def fit(self, hp, model, *args, **kwargs):
        return ps_train.keras.fit(model, *args, num_ps=1, num_workers=2, **kwargs)


def data(seed, examples):
    x = np.random.default_rng(seed).normal(size=(examples, 8)).astype("float32")
    return x, (x[:, 0] * x[:, 1] > 0).astype("float32")


def main():
    objective = keras_tuner.Objective("val_AUC", "max")
    tuner = keras_tuner.RandomSearch(Search(), objective, max_trials=2, seed=1, directory="tuned", overwrite=True)
    tuner.search(*data(1, 2048), epochs=2, validation_data=data(2, 512), verbose=0)
    print("best", tuner.get_best_hyperparameters()[0].values)


if __name__ == "__main__":
    main()
