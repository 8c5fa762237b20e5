"""A library that calls the executor of trainings, with a listener of its own that ends them."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.estimator import model_fn as model_fn_lib
from tensorflow.python.estimator import run_config as run_config_lib
from tensorflow.python.estimator.estimator import Estimator, _load_global_step_from_checkpoint_dir
from tensorflow.python.estimator.training import (
    TrainSpec,
    _assert_eval_spec,
    _ContinuousEvalListener,
    _EvalStatus,
    _TrainingExecutor,
)

from tests.support.compat.tf1_refusals import refused

X = np.random.RandomState(0).normal(size=[64, 2]).astype(np.float32)
Y = X @ np.array([[1], [2]], np.float32)


def input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat().batch(16)


def model_fn(features, labels, mode):
    loss = tf.losses.mean_squared_error(labels, tf.keras.layers.Dense(1, use_bias=False, name="dense")(features["x"]))
    train_op = tf.train.GradientDescentOptimizer(0.02).minimize(loss, tf.train.get_global_step())
    return model_fn_lib.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Patience(_ContinuousEvalListener):
    """Ends the training when the loss is small."""

    def __init__(self):
        self.losses = []

    def after_eval(self, eval_result):
        assert eval_result.status == _EvalStatus.EVALUATED and os.path.dirname(eval_result.checkpoint_path) == directory
        self.losses.append(eval_result.metrics["loss"])
        return self.losses[-1] > 0.05


class Counting(tf.train.SessionRunHook):
    steps = 0

    def after_run(self, context, values):
        self.steps += 1


directory, listener, hook = tempfile.mkdtemp(), Patience(), Counting()
config = run_config_lib.RunConfig(directory, save_checkpoints_steps=5, tf_random_seed=1)
assert config.task_type == run_config_lib.TaskType.WORKER != run_config_lib.TaskType.EVALUATOR
eval_spec = tf.estimator.EvalSpec(input_fn, steps=2, throttle_secs=0, start_delay_secs=0)
_assert_eval_spec(eval_spec)
executor = _TrainingExecutor(
    Estimator(model_fn, config=config), TrainSpec(input_fn, max_steps=1000), eval_spec, [hook], listener
)
metrics, exported = executor.run()
assert len(listener.losses) > 1 and listener.losses[-1] <= 0.05 < listener.losses[-2] and exported == []
assert _load_global_step_from_checkpoint_dir(tempfile.mkdtemp()) == 0
assert metrics["global_step"] == _load_global_step_from_checkpoint_dir(directory) == hook.steps
assert hook.steps == 5 * len(listener.losses) < 1000
assert executor.estimator.get_variable_names() == ["dense/kernel", "global_step"]
assert "derive it from _ContinuousEvalListener" in refused(
    "executor(estimator, train, evaluate, continuous_eval_listener=object())",
    executor=_TrainingExecutor,
    estimator=executor.estimator,
    train=TrainSpec(input_fn),
    evaluate=eval_spec,
)
assert "use EvalSpec(...)" in refused("check(1)", check=_assert_eval_spec)
assert "use tf.estimator" in refused("import tensorflow.python.estimator.no_such_module")
assert "use tf.estimator" in refused("from tensorflow.python.estimator.tpu import no_such_module")
