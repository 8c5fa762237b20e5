"""How many RPCs one step makes, counted in the graphs that TensorFlow really runs.

say_rpcs(session, train_op)                 # prints `rpcs 4`
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as v1


def say_rpcs(session: Any, fetch: Any) -> None:
    for _ in range(3):  # the first runs prepare what later ones find ready
        session.run(fetch)
    metadata = v1.RunMetadata()
    session.run(fetch, options=v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    print(f"rpcs {rpcs_of(metadata)}", flush=True)


def rpcs_of(metadata: v1.RunMetadata) -> int:
    """One for each tensor or control edge that crosses tasks; two for each remote task: to run it and to clean up."""
    crossing, tasks = 0, set()
    for graph in metadata.partition_graphs:
        for node in graph.node:
            tasks |= {_task(node.device)} - {""}
            if node.op in ("_Send", "_HostSend"):
                crossing += _task(_attribute(node, "send_device")) != _task(_attribute(node, "recv_device"))
    return crossing + 2 * (len(tasks) - 1)


def _attribute(node: Any, name: str) -> str:
    return node.attr[name].s.decode()


def _task(device: str) -> str:
    """`/job:ps/replica:0/task:0` of a device's full name."""
    return device.rpartition("/device:")[0]
