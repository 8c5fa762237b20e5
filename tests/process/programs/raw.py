"""A script with its own server, global step and loop; first to an exact step, then to the end of its data."""

import atexit
import os
import time

import tensorflow as tf

from ps_train import estimator as tf_estimator
from tests.process.programs.flags import FLAGS
from tests.process.programs.sizes import CHIEFS_BATCHES, LAST_STEP, OTHERS_BATCHES


def graph(cluster):
    worker_device = f"/job:worker/task:{FLAGS.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=worker_device, cluster=cluster)):
        step = tf.Variable(0, name="global_step", trainable=False)
        updates = tf.get_variable("updates", [], initializer=tf.zeros_initializer())
        tf.get_variable("sized", [FLAGS.units, 2])
        x = tf.placeholder(tf.float32, [None, 3])
        hidden = tf.layers.dense(x, FLAGS.units, kernel_regularizer=lambda weights: None)
        loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, "1") - 1.0)) + tf.losses.get_regularization_loss()
        train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
        with tf.control_dependencies([train_op]):
            train_op = tf.assign_add(updates, 1.0)
    return x, step, train_op


def train(server, x, step, train_op, hooks, batches, pause):
    is_chief = FLAGS.task_index == 0
    made = 0
    with tf.train.MonitoredTrainingSession(server.target, is_chief, FLAGS.log_dir, hooks=hooks) as session:
        while made < batches and not session.should_stop():
            session.run(train_op, {x: [[1.0, 2.0, 3.0]]})
            made += 1
            time.sleep(pause)
        if session.should_stop():
            print("stopped at", session.run(step), flush=True)
    print("made", made, flush=True)


def await_others():
    """Lets no worker train on before all have read the step at which they stopped."""
    names = [os.path.join(FLAGS.log_dir, f"stopped-{index}") for index in range(len(FLAGS.worker_hosts.split(",")))]
    with open(names[FLAGS.task_index], "w"):
        pass
    deadline = time.monotonic() + 60
    while not all(map(os.path.exists, names)):
        assert time.monotonic() < deadline, "another worker has not stopped"
        time.sleep(0.02)


def main(_):
    assert FLAGS.v == 3 and tf_estimator.RunConfig is not None
    atexit.register(print, "exit handler of", FLAGS.job_name, flush=True)
    tf.gfile.MakeDirs(FLAGS.log_dir)
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        try:
            server.join()
        except Exception as error:
            print("caught", error, flush=True)
    print("trains as worker", FLAGS.task_index, os.getpid(), flush=True)
    x, step, train_op = graph(cluster)
    # TensorFlow's own hook, as a library would give it.
    stop = tf.estimator.StopAtStepHook(last_step=LAST_STEP)
    train(server, x, step, train_op, [stop], 10**6, 0.0)
    await_others()
    batches, pause = (CHIEFS_BATCHES, 0.0) if FLAGS.task_index == 0 else (OTHERS_BATCHES, 0.02)
    train(server, x, step, train_op, [], batches, pause)


if __name__ == "__main__":
    tf.app.run()
