"""An Estimator program that evaluates after train_and_evaluate.

It places a part of its model on another worker, or has a hook that waits for the other workers at the end.
"""

import os
import time

import tensorflow as tf

tf.flags.DEFINE_string("model_dir", "model", "Directory of checkpoints")
tf.flags.DEFINE_bool("elsewhere", False, "Places a layer on worker 0, in all tasks")
FLAGS = tf.flags.FLAGS


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": [[1.0, 2.0]]}, [[1.0]])).repeat()


class LeavesTogether(tf.train.SessionRunHook):
    """Ends when all workers have come to their end: each counts itself in a queue on the ps."""

    def __init__(self, workers):
        self.workers = workers

    def begin(self):
        with tf.device("/job:ps/task:0"):
            queue = tf.FIFOQueue(self.workers, tf.float32, [[]], shared_name="ended")
        self.count, self.size = queue.enqueue(1.0), queue.size()

    def end(self, session):
        session.run(self.count)
        while session.run(self.size) < self.workers:
            time.sleep(0.05)
        print("left together", flush=True)


def model_fn(features, labels, mode):
    with tf.device("/job:worker/task:0" if FLAGS.elsewhere and mode == "train" else None):
        scaled = tf.multiply(features["x"], 2.0, name="scaled")
    outputs = tf.layers.dense(scaled, 1)
    loss = tf.losses.mean_squared_error(labels, outputs)
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    saver = tf.train.Saver(tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES), sharded=True, max_to_keep=2)
    scaffold = tf.train.Scaffold(saver=saver) if mode == "train" else None
    hooks = [] if FLAGS.elsewhere else [LeavesTogether(workers=2)]
    return tf.estimator.EstimatorSpec(mode, outputs, loss, train_op, scaffold=scaffold, training_hooks=hooks)


def main(_):
    config = tf.estimator.RunConfig(save_checkpoints_steps=50, job={"steps_per_run": 1})
    estimator = tf.estimator.Estimator(model_fn, FLAGS.model_dir, config)
    train_spec = tf.estimator.TrainSpec(input_fn, max_steps=80)
    eval_spec = tf.estimator.EvalSpec(input_fn, steps=1)
    try:
        tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    except Exception as error:
        print("caught", error, flush=True)
        raise
    if config.is_chief or config.task_type == "ps":  # as a program does that knows no end of a ps
        found = estimator.evaluate(input_fn, steps=1)
        print("evaluated by", config.task_type, os.getpid(), "at", found["global_step"], flush=True)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.app.run()
