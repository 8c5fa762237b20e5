"""Errors of a program of TensorFlow 1 say how it is run."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.scripts.tensorflow1 import advice


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda: tf.placeholder(tf.float32), "tf.placeholder"),
        (lambda: tf.train.MonitoredTrainingSession, "tf.train.MonitoredTrainingSession"),
        (lambda: tf.estimator.Estimator, "tf.estimator"),
        (lambda: tf.contrib.layers, "tf.contrib"),
        (lambda: importlib.import_module("tensorflow.contrib"), "the module tensorflow.contrib"),
        (lambda: tf.compat.v1.placeholder(tf.float32), "tf.placeholder()"),
    ],
)
def test_a_name_of_tensorflow_1(use, name):
    with pytest.raises(Exception, match=r".") as caught:
        use()
    assert advice(caught.value) == f"{name} is TensorFlow 1's: run the program with `python -m ps_train run --compat`."


@pytest.mark.parametrize(
    "use", [lambda: tf.no_such_name, lambda: np.no_such_name, lambda: importlib.import_module("no_such"), lambda: 1 / 0]
)
def test_another_error(use):
    with pytest.raises(Exception, match=r".") as caught:
        use()
    assert advice(caught.value) == ""
