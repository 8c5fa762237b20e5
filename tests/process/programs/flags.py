"""Flags of the program; two of them are absl's too."""

import tensorflow as tf

tf.flags.DEFINE_string("log_dir", "logs", "Directory of checkpoints")
tf.flags.DEFINE_integer("v", 3, "Not absl's number of that name")
tf.flags.DEFINE_string("units", "4", "Units of the hidden layer, as a text")
tf.flags.DEFINE_string("job_name", "", "ps or worker")
tf.flags.DEFINE_integer("task_index", 0, "Index of the task")
tf.flags.DEFINE_string("ps_hosts", "", "Addresses of the ps")
tf.flags.DEFINE_string("worker_hosts", "", "Addresses of the workers")
FLAGS = tf.flags.FLAGS
