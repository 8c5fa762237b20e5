"""Synchronous training whose weights show which gradients were taken; a worker may leave early or die.

python sync_means.py JOB INDEX PS_HOSTS WORKER_HOSTS LAST_STEP [leave|die|plain]
"""

import os
import signal
import sys

import numpy as np
import tensorflow.compat.v1 as tf

from ps_train import train

tf.disable_eager_execution()
job, index, ps, workers, last, ending = sys.argv[1:7]
cluster = train.ClusterSpec({"ps": ps.split(","), "worker": workers.split(",")})
limits = train.Server.limits
train.Server.limits = type(limits)(silent_secs=3, restart_secs=1, absent_secs=3)
server = train.Server(cluster, job_name=job, task_index=int(index))
if job == "ps":
    server.join()
    sys.exit(0)
size = len(workers.split(","))
with tf.device(train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
    weight = tf.get_variable("w", [size], initializer=tf.zeros_initializer())
    given = tf.placeholder(tf.float32, [size])
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(float(size))
    hooks = [train.StopAtStepHook(last_step=int(last))]
    if ending != "async":
        optimizer = train.SyncReplicasOptimizer(optimizer, size, size)
    train_op = optimizer.minimize(-tf.reduce_sum(weight * given), global_step=step)
    if ending != "async":
        hooks.append(optimizer.make_session_run_hook(index == "0"))
count = 0
with train.MonitoredTrainingSession(server.target, index == "0", hooks=hooks) as session:
    while not session.should_stop():
        session.run(train_op, {given: np.eye(size)[int(index)]})
        count += 1
        if index == "1" and count == 5 and ending == "leave":
            break
        if index == "1" and count == 5 and ending == "die":
            os.kill(os.getpid(), signal.SIGKILL)
    print(f"weights {session.run(weight).tolist()} step {session.run(step)} own {count}", flush=True)
