"""A model_fn of the logits that canned models have, and a hook that ends the training at a step."""

import tempfile

import tensorflow as tf
from tensorflow.estimator.experimental import dnn_logit_fn_builder, make_stop_at_checkpoint_step_hook

from tests.support.compat.tf1_refusals import refused

COLUMNS = [tf.feature_column.numeric_column("x", (2,))]


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": [[1.0, 2.0]]}, [[3.0]])).repeat()


def model_fn(features, labels, mode, params, config):
    deep = dnn_logit_fn_builder(1, [4], COLUMNS, tf.nn.relu, None, None, False)
    wide = tf.estimator.experimental.linear_logit_fn_builder(1, COLUMNS)
    logits = sum(
        tf.estimator.experimental.call_logit_fn(build, features, mode, params, config) for build in (deep, wide)
    )
    loss = tf.losses.mean_squared_error(labels, logits)
    train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, logits, loss, train_op)


with tempfile.TemporaryDirectory() as directory:
    estimator = tf.estimator.Estimator(model_fn, directory)
    hook = make_stop_at_checkpoint_step_hook(estimator, last_step=20)
    estimator.train(input_fn, hooks=[hook], max_steps=1000)
    found = estimator.evaluate(input_fn, steps=1)
    assert found["global_step"] == 20 and found["loss"] < 9.0, found

for name in ("InMemoryEvaluatorHook", "KMeans", "LinearSDCA", "RNNClassifier", "SavedModelEstimator"):
    assert refused(f"tf.estimator.experimental.{name}", tf=tf).startswith(f"{name} is not there, since ")
    assert refused(f"from tensorflow.estimator.experimental import {name}").startswith(f"{name} is not there, since ")
