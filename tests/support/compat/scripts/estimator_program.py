"""An Estimator program of TensorFlow 1's time: contrib, tf.layers, partitioned lookups, a schedule, a hook."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib.layers import l2_regularizer

tf.flags.DEFINE_string("model_dir", "model", "Directory of checkpoints")
tf.flags.DEFINE_integer("steps", 200, "Number of global steps")
FLAGS = tf.flags.FLAGS

_random = np.random.RandomState(0)
X = _random.rand(2000, 6).astype(np.float32)
IDS = _random.randint(0, 300, size=(2000, 4))
Y = ((X.sum(1) + (IDS.sum(1) % 3)) > 4).astype(np.float32)


def input_fn(mode):
    dataset = tf.data.Dataset.from_tensor_slices(({"x": X, "ids": IDS}, Y))
    if mode == tf.estimator.ModeKeys.TRAIN:
        dataset = dataset.shuffle(500).repeat()
    return dataset.batch(64).make_one_shot_iterator().get_next()


def network(features, units, training):
    with tf.variable_scope("embedding", partitioner=tf.fixed_size_partitioner(2)):
        table = tf.get_variable("table", [300, 8], initializer=tf.glorot_uniform_initializer())
        looked_up = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
    net = tf.concat([features["x"], looked_up], 1)
    assert net.shape[1].value == 14
    for size in units:
        net = tf.layers.dense(net, size, activation=tf.nn.relu, kernel_regularizer=l2_regularizer(1e-4))
        net = tf.layers.batch_normalization(net, training=training)
        net = tf.layers.dropout(net, 0.1, training=training)
    return tf.layers.dense(net, 1)[:, 0]


def model_fn(features, labels, mode, params):
    logits = network(features, params["units"], mode == tf.estimator.ModeKeys.TRAIN)
    probability = tf.sigmoid(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"probability": probability})
    loss = tf.losses.sigmoid_cross_entropy(labels, logits) + tf.losses.get_regularization_loss()
    metrics = {"auc": tf.metrics.auc(labels, probability)}
    tf.summary.scalar("training_auc", metrics["auc"][1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    step = tf.train.get_global_step()
    optimizer = tf.train.AdamOptimizer(tf.train.exponential_decay(0.01, step, 100, 0.9))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=step)
    shown = tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=50)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[shown])


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    config = tf.estimator.RunConfig(save_checkpoints_steps=100)
    estimator = tf.estimator.Estimator(model_fn, FLAGS.model_dir, config, params={"units": [16, 8]})
    train_spec = tf.estimator.TrainSpec(lambda: input_fn("train"), max_steps=FLAGS.steps)
    eval_spec = tf.estimator.EvalSpec(lambda: input_fn("eval"), steps=None, throttle_secs=1, start_delay_secs=1)
    print("RESULT", tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec))


if __name__ == "__main__":
    tf.app.run()
