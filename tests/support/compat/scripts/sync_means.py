"""Synchronous training whose weights show which gradients were taken; a worker may leave early or die.

python sync_means.py JOB INDEX PS_HOSTS WORKER_HOSTS LAST_STEP ENDING [CHECKPOINT_DIR]

ENDING: plain; async: without synchronization; leave, die: worker 1 does so after five steps; crash: the only worker
dies after five steps, once; fail: each worker raises an error.
"""

import os
import signal
import sys

import numpy as np
import tensorflow.compat.v1 as tf

from ps_train import train

tf.disable_eager_execution()
job, index, ps, workers, last, ending = sys.argv[1:7]
directory = sys.argv[7] if len(sys.argv) > 7 else None
cluster = train.ClusterSpec({"ps": ps.split(","), "worker": workers.split(",")})
limits = train.Server.limits
train.Server.limits = type(limits)(silent_secs=60 if ending == "crash" else 3, restart_secs=1, absent_secs=3)
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
    is_sync = ending in ("plain", "leave", "die")
    if is_sync:
        optimizer = train.SyncReplicasOptimizer(optimizer, size, size)
    train_op = optimizer.minimize(-tf.reduce_sum(weight * given), global_step=step)
    if is_sync:
        hooks.append(optimizer.make_session_run_hook(index == "0"))
count = 0
options = {"save_checkpoint_steps": 10} if directory else {}
with train.MonitoredTrainingSession(server.target, index == "0", directory, hooks=hooks, **options) as session:
    while not session.should_stop():
        session.run(train_op, {given: np.eye(size)[int(index)]})
        count += 1
        if count == 5:
            print("five steps", flush=True)
        if ending == "fail":
            raise ValueError("this worker fails")
        if ending == "crash" and count == 5 and session.run(step) == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == "1" and count == 5 and ending == "leave":
            break
        if index == "1" and count == 5 and ending == "die":
            os.kill(os.getpid(), signal.SIGKILL)
    print(f"weights {session.run(weight).tolist()} step {session.run(step)} own {count}", flush=True)
