"""One client that places work on all other tasks, which only serve; its job has the older name `master`."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
cluster, task = tf.train.ClusterSpec(config["cluster"]), config["task"]
server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"])
if task["type"] != "master":
    server.join()
print("client is", task["type"], flush=True)
with tf.device("/job:ps/task:0"):
    total = tf.Variable(0.0)
parts = []
for index in range(cluster.num_tasks("worker")):
    with tf.device(f"/job:worker/task:{index}"):
        parts.append(tf.square(tf.constant(3.0 + index), name="part"))
with tf.device("/job:ps/task:0"):
    update = tf.assign_add(total, tf.add_n(parts))
options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
with tf.train.MonitoredTrainingSession(server.target, is_chief=True) as session:
    for _ in range(2):
        found = session.run(update, options=options, run_metadata=metadata)
    print("total", int(found), flush=True)
    print("ran on", sorted({stats.device for stats in metadata.step_stats.dev_stats}), flush=True)
