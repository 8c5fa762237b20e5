"""A process with threads inside of TensorFlow ends with its own exit code."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading, time
import tensorflow as tf, tensorflow.compat.v1 as v1
from ps_train.cluster.sessions.calls import RepeatingSession
graph = tf.Graph()
with graph.as_default():
    work = tf.reduce_sum(tf.linalg.matmul(tf.random.uniform([300, 300]), tf.random.uniform([300, 300])))
session, begun = RepeatingSession("", graph, v1.ConfigProto()), threading.Event()
def loop():
    while True:
        session.run(work)
        begun.set()
for _ in range(4):
    threading.Thread(target=loop, daemon=True).start()
begun.wait(60)
print("end", flush=True)
"""


def test_a_program_ends_while_threads_make_calls() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
