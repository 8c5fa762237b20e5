"""A network of TensorFlow 1's time, trained by an Estimator, by an Experiment, by a raw session of a cluster, or by a
plain one.

python two_networks.py --network=recurrent|layers --way=estimator|experiment|cluster|plain [--steps=20]

Each worker reads the same batches, and rounds are synchronous, so all ways end with the same weights.
"""

import json
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.flags.DEFINE_enum("way", "estimator", ["estimator", "experiment", "cluster", "plain"], "How to train")
tf.flags.DEFINE_enum("network", "recurrent", ["recurrent", "layers"], "What to train")
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


def recurrent(features):
    cells = [tf.nn.rnn_cell.LSTMCell(UNITS), tf.nn.rnn_cell.GRUCell(UNITS)]
    stack = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=1.0) for cell in cells])
    with tf.variable_scope("net", initializer=initial):
        length = features["length"]
        outputs, _ = tf.nn.dynamic_rnn(stack, features["x"], sequence_length=length, dtype=tf.float32, scope="deep")
        ways = [tf.nn.rnn_cell.BasicLSTMCell(UNITS), tf.nn.rnn_cell.BasicRNNCell(UNITS)]
        _, (ahead, back) = tf.nn.bidirectional_dynamic_rnn(*ways, outputs, sequence_length=length, dtype=tf.float32)
        weights = tf.get_variable("weights", [2 * UNITS, 1])
    return tf.matmul(tf.concat([ahead.h, back], 1), weights)[:, 0]


def layers(features):
    from tensorflow.contrib import slim

    with tf.variable_scope("net", initializer=initial):
        shared = tf.layers.Dense(UNITS, activation=tf.nn.relu, kernel_initializer=initial)
        hidden = [tf.contrib.layers.layer_norm(shared(features["x"][:, position])) for position in range(POSITIONS)]
        hidden.append(tf.contrib.layers.embed_sequence(features["length"], POSITIONS + 1, UNITS, initializer=initial))
        joined = tf.layers.BatchNormalization(momentum=0.9)(tf.concat(hidden, 1), training=True)
        with slim.arg_scope([slim.fully_connected], weights_initializer=initial, normalizer_fn=slim.batch_norm):
            deep = slim.fully_connected(joined, UNITS, scope="deep")
        return slim.fully_connected(deep, 1, activation_fn=None, weights_initializer=initial, scope="last")[:, 0]


def loss_of(features, labels):
    logits = (recurrent if FLAGS.network == "recurrent" else layers)(features)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def train_op_of(loss, step, replicas):
    made = tf.train.MomentumOptimizer(0.5, 0.9)
    made = tf.train.SyncReplicasOptimizer(made, replicas, replicas) if replicas > 1 else made
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return made.minimize(loss, global_step=step), made


def model_fn(features, labels, mode):
    loss = loss_of(features, labels)
    train_op, _ = train_op_of(loss, tf.train.get_global_step(), 2)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train_with_estimator():
    estimator = tf.estimator.Estimator(model_fn, FLAGS.model_dir)
    spec = tf.estimator.EvalSpec(input_fn, steps=1)
    tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(input_fn, max_steps=FLAGS.steps), spec)


def train_with_experiment():
    from tensorflow.contrib.learn import Experiment, RunConfig, learn_runner

    def experiment_fn(run_config, hparams):
        estimator = tf.estimator.Estimator(model_fn, config=run_config)
        return Experiment(estimator, input_fn, input_fn, train_steps=hparams, eval_steps=1)

    learn_runner.run(experiment_fn, run_config=RunConfig(model_dir=FLAGS.model_dir), hparams=FLAGS.steps)


def train_in_cluster():
    config = json.loads(os.environ["TF_CONFIG"])
    task, cluster = config["task"], tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"])
    if task["type"] == "ps":
        return server.join()
    device = f"/job:worker/task:{task['index']}"
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=device)):
        train_op, sync = train_op_of(loss_of(*input_fn()), tf.train.get_or_create_global_step(), 2)
    is_chief = task["index"] == 0
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps), sync.make_session_run_hook(is_chief)]
    with tf.train.MonitoredTrainingSession(server.target, is_chief, FLAGS.model_dir, hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)


def train_plainly():
    train_op, _ = train_op_of(loss_of(*input_fn()), tf.train.get_or_create_global_step(), 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            session.run(train_op)
        tf.train.Saver().save(session, f"{FLAGS.model_dir}/model.ckpt", FLAGS.steps)


if __name__ == "__main__":
    FLAGS(sys.argv)
    tf.logging.set_verbosity(tf.logging.INFO)
    ways = {"estimator": train_with_estimator, "experiment": train_with_experiment, "cluster": train_in_cluster}
    ways.get(FLAGS.way, train_plainly)()
