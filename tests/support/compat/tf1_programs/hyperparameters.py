"""Hyperparameters from flags, as training programs read them."""

import tensorflow as tf
from tensorflow.contrib.training import HParams, parse_values
from tensorflow.contrib.training.python.training import hparam

hparams = tf.contrib.training.HParams(learning_rate=0.1, hidden_units=[64, 32], optimizer="adam")
hparams.parse("learning_rate=0.3,hidden_units=[128,64]").override_from_dict({"optimizer": "sgd"})
assert hparams.values() == {"learning_rate": 0.3, "hidden_units": [128, 64], "optimizer": "sgd"}
assert HParams is hparam.HParams and parse_values("steps=3", {"steps": int}) == {"steps": 3}
estimator = tf.estimator.Estimator(lambda features, params: None, params=hparams)
assert estimator.params.learning_rate == 0.3
