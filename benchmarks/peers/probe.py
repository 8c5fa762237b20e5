"""What TensorFlow's own machinery costs: runs that do nothing, and tensors that cross, over and over.

    python -m benchmarks.peers.probe --job_name=worker --task_index=0 --ps_hosts=… --worker_hosts=… --workload=any

Prints `begin NAME` and `end NAME COUNT` around each phase; who listens looks at the processes' CPU time at both.
"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from benchmarks.peers.sizes import LARGE_BYTES, SMALL_TENSORS
from benchmarks.peers.speech import parse

_PHASE_SECS = 1.5


def main() -> None:
    arguments = parse("What empty runs and crossing tensors cost.")
    v1.disable_eager_execution()
    cluster = v1.train.ClusterSpec({"ps": arguments.ps_hosts.split(","), "worker": arguments.worker_hosts.split(",")})
    server = v1.train.Server(cluster, arguments.job_name, arguments.task_index)
    if arguments.job_name == "ps":
        server.join()
    with tf.device("/job:ps/task:0"):
        nothing = tf.no_op()
        variables = [v1.get_variable(f"small{i}", [4], use_resource=True) for i in range(1 + SMALL_TENSORS)]
        large = v1.get_variable("large", [LARGE_BYTES // 4], use_resource=True)
        reads = [variable.read_value() for variable in variables]
        large_read = large.read_value() + 1.0  # a copy, as parcels are
    with tf.device("/job:worker/task:0"):
        arrived = [tf.identity(read).op for read in reads]
        large_arrived = tf.identity(large_read).op
    with v1.Session(server.target) as session:
        session.run(v1.global_variables_initializer())
        _phase(session, "run", nothing)
        _phase(session, "one", arrived[0])
        _phase(session, "many", arrived)
        _phase(session, "large", large_arrived)
    print("over", flush=True)


def _phase(session: v1.Session, name: str, fetch: Any) -> None:
    for _ in range(20):
        session.run(fetch)
    print(f"begin {name}", flush=True)
    count, deadline = 0, time.monotonic() + _PHASE_SECS
    while time.monotonic() < deadline:
        session.run(fetch)
        count += 1
    print(f"end {name} {count}", flush=True)
    time.sleep(0.05)


if __name__ == "__main__":
    main()
