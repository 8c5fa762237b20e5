"""A recurrent network of TensorFlow 1's time, trained by an Estimator, a raw session of a cluster, or a plain one.

python recurrent.py --way=estimator|cluster|plain [--steps=20]

Each worker reads the same batches, and rounds are synchronous, so all ways end with the same weights.
"""

import json
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.flags.DEFINE_enum("way", "estimator", ["estimator", "cluster", "plain"], "How to train")
tf.flags.DEFINE_integer("steps", 20, "Number of steps")
tf.flags.DEFINE_string("model_dir", "model", "Directory of checkpoints")
FLAGS = tf.flags.FLAGS
BATCH, POSITIONS, VALUES, UNITS = 8, 5, 3, 6

_random = np.random.RandomState(0)
X = _random.normal(size=[BATCH, POSITIONS, VALUES]).astype(np.float32)
LENGTHS = _random.randint(1, POSITIONS + 1, size=BATCH).astype(np.int32)
Y = (X.sum((1, 2)) > 0).astype(np.float32)


def input_fn():
    dataset = tf.data.Dataset.from_tensors(({"x": X, "length": LENGTHS}, Y))
    return dataset.repeat().make_one_shot_iterator().get_next()


def initial(shape, dtype=tf.float32, partition_info=None):
    return tf.constant(0.3 * np.sin(np.arange(np.prod(shape))).reshape(shape), dtype)


def loss_of(features, labels):
    cells = [tf.nn.rnn_cell.LSTMCell(UNITS), tf.nn.rnn_cell.GRUCell(UNITS)]
    stack = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=1.0) for cell in cells])
    with tf.variable_scope("net", initializer=initial):
        length = features["length"]
        outputs, _ = tf.nn.dynamic_rnn(stack, features["x"], sequence_length=length, dtype=tf.float32, scope="deep")
        ways = [tf.nn.rnn_cell.BasicLSTMCell(UNITS), tf.nn.rnn_cell.BasicRNNCell(UNITS)]
        _, (ahead, back) = tf.nn.bidirectional_dynamic_rnn(*ways, outputs, sequence_length=length, dtype=tf.float32)
        weights = tf.get_variable("weights", [2 * UNITS, 1])
    logits = tf.matmul(tf.concat([ahead.h, back], 1), weights)[:, 0]
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def optimizer(replicas):
    made = tf.train.MomentumOptimizer(0.5, 0.9)
    return tf.train.SyncReplicasOptimizer(made, replicas, replicas) if replicas > 1 else made


def model_fn(features, labels, mode):
    loss = loss_of(features, labels)
    train_op = optimizer(2).minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train_with_estimator():
    estimator = tf.estimator.Estimator(model_fn, FLAGS.model_dir)
    spec = tf.estimator.EvalSpec(input_fn, steps=1)
    tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(input_fn, max_steps=FLAGS.steps), spec)


def train_in_cluster():
    config = json.loads(os.environ["TF_CONFIG"])
    task, cluster = config["task"], tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"])
    if task["type"] == "ps":
        return server.join()
    device = f"/job:worker/task:{task['index']}"
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=device)):
        step, sync = tf.train.get_or_create_global_step(), optimizer(2)
        train_op = sync.minimize(loss_of(*input_fn()), global_step=step)
    is_chief = task["index"] == 0
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps), sync.make_session_run_hook(is_chief)]
    with tf.train.MonitoredTrainingSession(server.target, is_chief, FLAGS.model_dir, hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)


def train_plainly():
    tf.train.get_or_create_global_step()
    train_op = optimizer(1).minimize(loss_of(*input_fn()), global_step=tf.train.get_global_step())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            session.run(train_op)
        tf.train.Saver().save(session, f"{FLAGS.model_dir}/model.ckpt", FLAGS.steps)


if __name__ == "__main__":
    FLAGS(sys.argv)
    tf.logging.set_verbosity(tf.logging.INFO)
    {"estimator": train_with_estimator, "cluster": train_in_cluster, "plain": train_plainly}[FLAGS.way]()
