"""Softmax regression in the style of the classic tutorials: placeholders, MonitoredTrainingSession, StopAtStepHook."""

# ruff: noqa: UP031

import argparse
import sys

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

FLAGS = None


def main(_):
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)

    if FLAGS.job_name == "ps":
        server.join()
    elif FLAGS.job_name == "worker":
        mnist = input_data.read_data_sets(FLAGS.data_dir, one_hot=True)
        with tf.device(
            tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster)
        ):
            x = tf.placeholder(tf.float32, [None, 784])
            W = tf.Variable(tf.zeros([784, 10]))
            b = tf.Variable(tf.zeros([10]))
            y = tf.nn.softmax(tf.matmul(x, W) + b)
            y_ = tf.placeholder(tf.float32, [None, 10])
            cross_entropy = -tf.reduce_sum(y_ * tf.log(tf.clip_by_value(y, 1e-10, 1.0)))
            global_step = tf.contrib.framework.get_or_create_global_step()
            train_step = tf.train.GradientDescentOptimizer(0.001).minimize(cross_entropy, global_step=global_step)
            correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
            accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))

        hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps)]
        with tf.train.MonitoredTrainingSession(
            master=server.target,
            is_chief=(FLAGS.task_index == 0),
            checkpoint_dir=FLAGS.checkpoint_dir,
            config=tf.ConfigProto(log_device_placement=False),
            hooks=hooks,
        ) as mon_sess:
            while not mon_sess.should_stop():
                batch_xs, batch_ys = mnist.train.next_batch(100)
                _, step = mon_sess.run([train_step, global_step], feed_dict={x: batch_xs, y_: batch_ys})
                if step % 20 == 0 or mon_sess.should_stop():
                    test = {x: mnist.test.images, y_: mnist.test.labels}
                    print("step", step, "accuracy", mon_sess.run(accuracy, feed_dict=test))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", type=str, default="", help="Comma-separated list of hostname:port pairs")
    parser.add_argument("--worker_hosts", type=str, default="", help="Comma-separated list of hostname:port pairs")
    parser.add_argument("--job_name", type=str, default="", help="One of 'ps', 'worker'")
    parser.add_argument("--task_index", type=int, default=0, help="Index of task within the job")
    parser.add_argument("--data_dir", type=str, default="MNIST_data/")
    parser.add_argument("--checkpoint_dir", type=str, default="train_logs")
    parser.add_argument("--steps", type=int, default=100)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
