"""A script that knows its chief as `master` alone: in a cluster with a `chief`, no task makes the model."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
cluster, task = tf.train.ClusterSpec(config["cluster"]), config["task"]
server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"])
if task["type"] == "ps":
    server.join()
elif task["type"] in ("master", "worker"):
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    with tf.train.MonitoredTrainingSession(server.target, is_chief=task["type"] == "master") as session:
        print("began at", session.run(step), flush=True)
