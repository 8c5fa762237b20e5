"""A canned model of 39 columns that asks for TensorFlow's engine."""

import numpy as np
import tensorflow as tf

tf.flags.DEFINE_string("model_dir", "model", "Directory of checkpoints")
FLAGS = tf.flags.FLAGS

_random = np.random.RandomState(0)
X = {f"I{index}": _random.rand(64).astype(np.float32) for index in range(13)}
X |= {f"C{index}": _random.randint(0, 20, 64).astype(str) for index in range(26)}
Y = (X["I0"] > 0.5).astype(np.int32)


def input_fn():
    return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(16)


def main(_):
    column = tf.feature_column
    numbers = [column.numeric_column(f"I{index}") for index in range(13)]
    words = [column.categorical_column_with_hash_bucket(f"C{index}", 30) for index in range(26)]
    config = tf.estimator.RunConfig(save_checkpoints_steps=10, engine="tensorflow")
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        FLAGS.model_dir,
        linear_feature_columns=[*numbers, *words],
        dnn_feature_columns=[*numbers, *(column.embedding_column(word, 4) for word in words)],
        dnn_hidden_units=[8],
        config=config,
    )
    train_spec = tf.estimator.TrainSpec(input_fn, max_steps=10)
    tf.estimator.train_and_evaluate(estimator, train_spec, tf.estimator.EvalSpec(input_fn, steps=1))


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.app.run()
