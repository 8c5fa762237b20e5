"""contrib.learn's Experiment and learn_runner train an Estimator of tf.estimator."""

import numpy as np
import tensorflow as tf
import tensorflow.contrib.learn as learn
from tensorflow.contrib.learn import learn_runner
from tensorflow.contrib.learn.python.learn import ModeKeys
from tensorflow.contrib.learn.python.learn import learn_runner as same_runner
from tensorflow.contrib.learn.python.learn.estimators import model_fn as model_fn_lib
from tensorflow.contrib.learn.python.learn.estimators import run_config
from tensorflow.contrib.learn.python.learn.utils import saved_model_export_utils

from tests.support.compat.tf1_refusals import refused

assert learn_runner is same_runner is tf.contrib.learn.learn_runner and run_config.RunConfig is learn.RunConfig
assert ModeKeys is model_fn_lib.ModeKeys is learn.ModeKeys and ModeKeys.INFER == tf.estimator.ModeKeys.PREDICT
assert (ModeKeys.TRAIN, ModeKeys.EVAL) == (tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL)

X = np.linspace(-1, 1, 8).astype(np.float32)


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": X}, 2 * X)).repeat(20).make_one_shot_iterator().get_next()


def model_fn(features, labels, mode, params):
    weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
    outputs = weight * features["x"]
    if mode == ModeKeys.INFER:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": outputs})
    loss = tf.reduce_mean(tf.squared_difference(outputs, labels))
    optimizer = tf.train.GradientDescentOptimizer(params.rate)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Saved(tf.train.CheckpointSaverListener):
    steps = []

    def after_save(self, session, global_step_value):
        self.steps.append(int(global_step_value))


def experiment_fn(run_config, hparams):
    strategy = saved_model_export_utils.make_export_strategy(serving_input_fn, exports_to_keep=1)
    estimator = tf.estimator.Estimator(model_fn, config=run_config, params=hparams)
    return learn.Experiment(
        estimator,
        input_fn,
        input_fn,
        train_steps=10,
        eval_steps=1,
        export_strategies=[strategy],
        eval_delay_secs=0,
        saving_listeners=[Saved()],
    )


def serving_input_fn():
    x = tf.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


config = learn.RunConfig(model_dir="learned", save_checkpoints_steps=5, tf_random_seed=3, num_cores=1)
assert config.session_config.intra_op_parallelism_threads == 1 and config.save_checkpoints_steps == 5
params = tf.contrib.training.HParams(rate=0.5)
metrics, _ = learn_runner.run(experiment_fn, run_config=config, hparams=params)
weight = 0.0
for _ in range(10):
    weight -= 0.5 * np.mean(2 * (weight - 2) * X * X)
assert metrics["global_step"] == 10 and Saved.steps[-1] == 10 and 5 in Saved.steps
np.testing.assert_allclose(metrics["loss"], np.mean(((weight - 2) * X) ** 2), rtol=1e-3)
exports = tf.gfile.Glob("learned/export/Servo/*")
assert len(exports) == 1

predict = tf.contrib.predictor.from_saved_model(exports[0])
np.testing.assert_allclose(predict({"x": [1.0, -3.0]})["y"], [weight, -3 * weight], rtol=1e-5)
estimator = tf.estimator.Estimator(model_fn, config=config, params=params)
own = tf.contrib.predictor.from_estimator(estimator, serving_input_fn)
np.testing.assert_allclose(own({"x": [2.0]})["y"], [2 * weight], rtol=1e-5)
assert refused("predict({'z': 1})", predict=predict) == "'z' is not an input of the model: use x"

again = learn_runner.run(lambda config, _: experiment_fn(config, params), schedule="evaluate", run_config=config)
assert again["global_step"] == 10
assert "unknown: use one of" in refused("run(print, 'a', schedule='serve')", run=learn_runner.run)
assert "give one of them" in refused("run(print)", run=learn_runner.run)
assert "use tf.estimator" in refused("from tensorflow.contrib.learn import DNNClassifier")
