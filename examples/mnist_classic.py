"""Softmax regression as the classic TensorFlow tutorials have it, on a cluster of two shell lines.

    python examples/mnist_classic.py --job_name=ps
    python examples/mnist_classic.py --job_name=worker

Both end by themselves.  A classic program changes one import: `from ps_train import train` in place of `tf.train`.
`--data_dir` is a directory with the files of MNIST; without it the program uses the digits that ship with ps_train.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from ps_train import train
from ps_train.data import digits, idx

tf.disable_eager_execution()

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "localhost:2222", "Comma-separated list of host:port")
flags.DEFINE_string("worker_hosts", "localhost:2223", "Comma-separated list of host:port")
flags.DEFINE_enum("job_name", None, ["ps", "worker"], "Job of this process", required=True)
flags.DEFINE_integer("task_index", 0, "Index of this process in its job")
flags.DEFINE_string("data_dir", "", "Directory with the files of MNIST")
flags.DEFINE_string("train_dir", "/tmp/mnist_classic", "Directory of checkpoints")
flags.DEFINE_integer("max_steps", 100, "Global step at which training ends")
flags.DEFINE_boolean("log_device_placement", False, "Print the device of each operation")
FLAGS = flags.FLAGS


def load(split):
    """Returns images float32 [n, pixels] in 0..1 and labels float32 [n, 10]."""
    if FLAGS.data_dir:
        images, labels = idx.load(FLAGS.data_dir, split)
        images = images.reshape(len(images), -1) / np.float32(255)
    else:
        images, labels = digits.load(split)
    return images, np.eye(10, dtype=np.float32)[labels]


def model(pixels):
    """Builds the graph; returns its tensors by name."""
    x = tf.placeholder(tf.float32, [None, pixels])
    y_ = tf.placeholder(tf.float32, [None, 10])
    weights = tf.Variable(tf.zeros([pixels, 10]), name="weights")
    biases = tf.Variable(tf.zeros([10]), name="biases")
    y = tf.matmul(x, weights) + biases
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
    global_step = tf.train.get_or_create_global_step()
    train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=global_step)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1)), tf.float32))
    return x, y_, train_op, global_step, accuracy


def main(_):
    cluster = train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    images, labels = load("train")
    test_images, test_labels = load("test")
    worker_device = f"/job:worker/task:{FLAGS.task_index}"
    with tf.device(train.replica_device_setter(worker_device=worker_device, cluster=cluster)):
        x, y_, train_op, global_step, accuracy = model(images.shape[1])
    random = np.random.default_rng()
    with train.MonitoredTrainingSession(
        master=server.target,
        is_chief=FLAGS.task_index == 0,
        checkpoint_dir=FLAGS.train_dir,
        hooks=[train.StopAtStepHook(last_step=FLAGS.max_steps)],
        config=tf.ConfigProto(log_device_placement=FLAGS.log_device_placement),
    ) as session:
        while not session.should_stop():
            rows = random.integers(0, len(images), 100)
            session.run(train_op, {x: images[rows], y_: labels[rows]})
            if session.should_stop():
                step, found = session.run([global_step, accuracy], {x: test_images, y_: test_labels})
                print(f"step {step}: test accuracy {found:.3f}", flush=True)


if __name__ == "__main__":
    tf.app.run(main)
