"""Training from a queue and a one-shot iterator, configured by TF_CONFIG, as cluster schedulers set it."""

# ruff: noqa: UP031

import json
import os

import tensorflow as tf

tf.logging.set_verbosity(tf.logging.INFO)
flags = tf.flags
flags.DEFINE_string("working_dir", "train_logs", "Directory of checkpoints")
flags.DEFINE_integer("steps", 60, "Number of global steps")
FLAGS = flags.FLAGS


def queue_batches():
    xs = tf.constant([[0.0], [1.0], [2.0], [3.0]])
    x = tf.train.slice_input_producer([xs], shuffle=True, seed=1)[0]
    return tf.train.batch([x], batch_size=8, num_threads=1, capacity=64)


def iterator_batches():
    dataset = tf.data.Dataset.from_tensor_slices([[0.5], [1.5], [2.5]]).repeat().batch(4)
    return dataset.make_one_shot_iterator().get_next()


def model(x):
    target = 3.0 * x + 1.0
    w = tf.get_variable("w", [1, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - target))
    global_step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.05, global_step, 100, 0.9)
    train_op = tf.train.MomentumOptimizer(rate, 0.5).minimize(loss, global_step=global_step)
    tf.summary.scalar("loss", loss)
    return loss, train_op, global_step


def main(_):
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    cluster_spec = tf.train.ClusterSpec(cluster)
    server = tf.train.Server(cluster_spec, job_name=task["type"], task_index=task["index"])
    if task["type"] == "ps":
        tf.logging.info("ps %d waits", task["index"])
        server.join()
        return
    with tf.device(
        tf.train.replica_device_setter(
            worker_device="/job:%s/task:%d" % (task["type"], task["index"]), cluster=cluster_spec
        )
    ):
        x = tf.concat([queue_batches(), iterator_batches()], 0)
        loss, train_op, _ = model(x)
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=task["index"] == 0,
        checkpoint_dir=FLAGS.working_dir,
        save_summaries_steps=10,
        hooks=[tf.train.StopAtStepHook(last_step=FLAGS.steps), tf.train.NanTensorHook(loss)],
    ) as session:
        while not session.should_stop():
            value, _ = session.run([loss, train_op])
    print("loss %.3f" % value)


if __name__ == "__main__":
    tf.app.run()
