"""Names of Keras 2 mean what they meant, or say what to write."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.distribute import legacy_keras
from ps_train.compat.distribute.legacy_keras import DatasetCreator
from ps_train.compat.distribute.strategy import ParameterServerStrategy, redirect_fit

X = np.random.RandomState(0).rand(16, 3).astype("f")
Y = X.sum(1, keepdims=True)


@pytest.fixture(autouse=True)
def installed(replaced):
    redirect_fit()
    legacy_keras.install(replaced)


def fitted(optimizer="sgd", **options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse", metrics=["mae"])
    model.fit(X, Y, batch_size=8, verbose=0, shuffle=False, **options)
    return model


def test_the_rate_of_an_optimizer_has_its_old_name():
    model = fitted(tf.keras.optimizers.Adam(lr=0.5))
    assert float(model.optimizer.lr) == 0.5
    tf.keras.backend.set_value(model.optimizer.lr, 0.25)
    assert float(tf.keras.backend.get_value(model.optimizer.lr)) == 0.25
    model.optimizer.lr = 0.125
    assert float(model.optimizer.lr.numpy()) == 0.125


def test_a_decay_is_that_of_keras_2():
    optimizer = tf.keras.optimizers.SGD(lr=0.1, decay=0.5)
    rates = []
    variable = keras.Variable([0.0])
    for _ in range(3):
        before = variable.numpy()[0]
        optimizer.apply([np.array([1.0], "f")], [variable])
        rates.append(before - variable.numpy()[0])
    np.testing.assert_allclose(rates, [0.1 / (1 + 0.5 * step) for step in range(3)], rtol=1e-6)


def test_legacy_optimizers_are_todays():
    from tensorflow.keras.optimizers.legacy import Adam

    assert Adam is tf.keras.optimizers.legacy.Adam is keras.optimizers.experimental.Adam is keras.optimizers.Adam


def test_the_state_of_an_optimizer_is_a_list_of_arrays():
    model, other = fitted("adam"), fitted("adam", epochs=2)
    other.optimizer.set_weights(model.optimizer.get_weights())
    assert [value.shape for value in other.optimizer.get_weights()] == [v.shape for v in other.optimizer.variables]
    assert int(other.optimizer.iterations) == 2


def test_arguments_of_reading_have_no_effect():
    right = fitted().get_weights()
    model = fitted(workers=2, use_multiprocessing=True, max_queue_size=5)
    np.testing.assert_array_equal(model.get_weights()[0], right[0])
    assert len(model.evaluate(X, Y, workers=2, verbose=0)) == 2
    assert model.predict(X, max_queue_size=3, verbose=0).shape == (16, 1)


def test_generators_have_methods_of_their_own():
    def batches():
        while True:
            yield X[:8], Y[:8]
            yield X[8:], Y[8:]

    model = fitted(epochs=0)
    history = model.fit_generator(batches(), 2, epochs=3, verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], fitted(epochs=3).get_weights()[0], rtol=1e-6)
    assert len(history.history["loss"]) == 3
    np.testing.assert_allclose(model.evaluate_generator(batches(), 2, verbose=0), model.evaluate(X, Y, verbose=0), 1e-5)
    assert model.predict_generator(batches(), 2, verbose=0).shape == (16, 1)


def test_a_dataset_creator_makes_the_dataset_of_the_whole_job(fits):
    contexts = []

    def dataset(context):
        contexts.append((context.num_input_pipelines, context.get_per_replica_batch_size(8)))
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)

    with ParameterServerStrategy(num_workers=2).scope():
        model = fitted(epochs=0)
    fits.clear()
    creator = tf.keras.utils.experimental.DatasetCreator(dataset)
    model.fit(creator, epochs=2, verbose=0, steps_per_epoch=None, workers=3)
    model.evaluate(DatasetCreator(dataset), verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], fitted(epochs=2).get_weights()[0], rtol=1e-6)
    assert contexts == [(1, 8)] * 2 and "workers" not in fits[0]


def test_reductions_states_and_layers_have_their_old_names():
    from tensorflow.keras.layers.experimental import preprocessing

    loss = tf.keras.losses.MeanSquaredError(reduction=tf.keras.losses.Reduction.AUTO)
    assert float(loss([[1.0]], [[3.0]])) == 4
    assert keras.losses.MeanSquaredError(reduction=keras.losses.Reduction.NONE)(X, X).shape == (16,)
    metric = keras.metrics.Mean()
    metric.update_state(3.0)
    metric.reset_states()
    assert float(metric.result()) == 0
    assert preprocessing.Normalization is keras.layers.Normalization
    assert preprocessing.RandomFlip is tf.keras.layers.experimental.preprocessing.RandomFlip
    assert tf.distribute.get_strategy().experimental_run_v2(lambda x: x + 1, args=(1,)) == 2
    tf.keras.mixed_precision.experimental.set_policy(tf.keras.mixed_precision.experimental.Policy("float32"))


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: tf.keras.experimental.SidecarEvaluator(None), "give fit validation_data"),
        (lambda: keras.backend.set_learning_phase(1), "leave it out"),
        (lambda: tf.keras.estimator.model_to_estimator(None), "python -m ps_train run --compat"),
        (lambda: tf.keras.layers.DenseFeatures([]), "keras.utils.FeatureSpace"),
        (lambda: tf.keras.layers.experimental.SyncBatchNormalization(), "keras.layers.BatchNormalization"),
        (lambda: tf.keras.experimental.export_saved_model(None, "x"), "model.export"),
        (lambda: tf.keras.experimental.PeepholeLSTMCell, "Keras 3"),
        (lambda: fitted().predict_classes(X), "numpy.argmax"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_with_what_to_write(use, text):
    with pytest.raises((NotImplementedError, AttributeError)) as caught:
        use()
    assert text in str(caught.value) and "\n" not in str(caught.value)
