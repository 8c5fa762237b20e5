"""The further server of a process, on which the workers of a rack meet.

server, address = start_rack_server("10.0.0.2", 0, job)
session = v1.Session(target, config=session_config(cluster, task, job, {RACK_JOB: address}))
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.base.network_interfaces import refuse_public_ports
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.addresses.ports import port_owner
from ps_train.cluster.sessions.server import serve_on_port
from ps_train.config.job import Job
from ps_train.config.job_values import described

RACK_JOB = "rack"
"""Job name of the aggregator's server in the sessions of its rack."""


def start_rack_server(host: str, port: int, job: Job) -> tuple[v1.train.Server, Address]:
    """Starts the server.

    Args:
      host: the host by which the workers reach this process.
      port: its port; 0 for a free one.
      job: says if the port may be public.

    Returns:
      The server, which must be kept, and its address.

    Raises:
      ConfigError: TensorFlow cannot serve there.
    """
    refuse_public_ports("the server of the rack", job.allow_public_ports)
    # A rack has no use of a GPU.
    config = v1.ConfigProto(device_count={"GPU": 0})
    spec = v1.train.ClusterSpec({"local": [f"localhost:{port}"]})

    def start() -> v1.train.Server:
        return v1.train.Server(spec, job_name="local", task_index=0, config=config)

    try:
        server = serve_on_port(port, start) if port else start()
    except tf.errors.OpError as error:
        text = f"{described(job, 'rack_port')}: TensorFlow cannot serve on port {port}{port_owner(port)}"
        raise ConfigError(f"{text}: {error.message}") from None
    return server, Address(host, int(server.target.rpartition(":")[2]))
