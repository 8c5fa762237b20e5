"""A program for TPUs that trains without them."""

import tempfile

import tensorflow as tf

from tests.support.compat.tf1_refusals import refused


def input_fn(params):
    data = tf.data.Dataset.from_tensor_slices(({"x": [[1.0], [2.0], [3.0], [4.0]]}, [[2.0], [4.0], [6.0], [8.0]]))
    return data.repeat(None if params["batch_size"] == 4 else 1).batch(params["batch_size"])


def model_fn(features, labels, mode, params):
    weight = tf.get_variable("weight", [1, 1], initializer=tf.zeros_initializer())
    predictions = features["x"] @ weight
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.contrib.tpu.TPUEstimatorSpec(mode, predictions={"y": predictions})
    assert not params["use_tpu"] and params["batch_size"] in (2, 4) and params["rate"] == 0.02
    loss = tf.losses.mean_squared_error(labels, predictions)
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = (lambda truth, found: {"error": tf.metrics.mean_absolute_error(truth, found)}, [labels, predictions])
        return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, eval_metrics=metrics)
    train_op = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, tf.train.get_global_step())
    host_call = (lambda value: called.append(1) or tf.identity(value), {"value": loss})
    return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, host_call=host_call, scaffold_fn=None)


called = []
tpu = tf.contrib.tpu
with tempfile.TemporaryDirectory() as directory:
    settings = tpu.TPUConfig(10, per_host_input_for_training=tpu.InputPipelineConfig.PER_HOST_V2)
    config = tpu.RunConfig(cluster=None, master=None, model_dir=directory, tpu_config=settings)
    sizes = {"train_batch_size": 4, "eval_batch_size": 2, "predict_batch_size": 1}
    estimator = tpu.TPUEstimator(model_fn, config=config, params={"rate": 0.02}, use_tpu=False, **sizes)
    assert config.tpu_config.iterations_per_loop == 10 and estimator.config.tpu_config is not None
    estimator.train(input_fn, max_steps=50)
    found = estimator.evaluate(input_fn)
    weight = 0.0
    for _ in range(50):
        weight += 0.02 * 2 * (2 - weight) * 30 / 4
    assert abs(found["error"] - abs(2 - weight) * 2.5) < 1e-4 and found["global_step"] == 50, (found, weight)
    assert len(list(estimator.predict(input_fn))) == 4 and called
assert "use_tpu=False trains here" in refused("tf.contrib.tpu.TPUEstimator(lambda features: None)", tf=tf)
