"""The TensorFlow server of this process, on a port that is checked before.

    check_port(address)              # raises ConfigError when somebody else listens there
    server = start_server(address, job)

Every server knows only itself.  The cluster is put together by each *session* (see `session_config`), so a server
never waits for others, and a worker that no ps has heard of may join.  `Server.join()` is never called: it never
returns.
"""

from __future__ import annotations

import errno
import glob
import ipaddress
import logging
import os
import socket

import tensorflow as tf

from ps_train.cluster.spec import Address, Cluster
from ps_train.config import Job, Task
from ps_train.errors import ConfigError

log = logging.getLogger(__name__)

HELD_PORT_VARIABLE = "PS_TRAIN_HELD_PORT_FD"
"""Names a socket, inherited from the launcher, that keeps this task's port from others until the server starts."""


def check_port(address: Address, task: Task) -> None:
    """Raises ConfigError if the port is taken; warns if the address is none of this machine's."""
    if HELD_PORT_VARIABLE in os.environ:
        return
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("0.0.0.0", address.port))  # TensorFlow listens on every interface
            probe.listen()
    except PermissionError:
        raise ConfigError(
            f"port {address.port} of {task} ({address}) needs privileges: use a port from 1024 on."
        ) from None
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ConfigError(
            f"port {address.port} of {task} ({address}) is busy{_holder(address.port)}: "
            "stop that process or use another port."
        ) from None
    if not _is_local(address.host):
        log.warning(
            "%s has the address %s, which is none of this machine's; others will look for it there", task, address
        )


def start_server(address: Address, job: Job) -> tf.compat.v1.train.Server:
    """A server that listens on the address's port, on every interface (TensorFlow offers no other way)."""
    held = os.environ.pop(HELD_PORT_VARIABLE, None)
    if held is not None:
        os.close(int(held))
    if not _is_loopback(address.host):
        log.warning(
            "port %d is open on every interface and TensorFlow's protocol has no authentication: whoever reaches it "
            "can run code here; keep it behind a firewall",
            address.port,
        )
    try:
        return tf.compat.v1.train.Server(
            {"local": [str(address)]}, job_name="local", task_index=0, config=_device_config(job)
        )
    except tf.errors.OpError as error:
        raise ConfigError(f"TensorFlow cannot serve on {address}{_holder(address.port)}: {error.message}") from None


def session_config(cluster: Cluster, task: Task, job: Job) -> tf.compat.v1.ConfigProto:
    """A session's view: all ps and the task itself, so that it neither needs nor waits for any other worker."""
    config = _device_config(job)
    ps = config.cluster_def.job.add(name="ps")
    for index, address in enumerate(cluster.ps):
        ps.tasks[index] = str(address)
    own = config.cluster_def.job.add(name=task.job_name)
    own.tasks[task.task_index] = str(cluster.address(task))
    config.share_cluster_devices_in_session = True
    # Without it every session would have variables of its own on the ps.
    config.experimental.share_session_state_in_clusterspec_propagation = True
    return config


def device_of(task: Task) -> str:
    return f"/job:{task.job_name}/replica:0/task:{task.task_index}"


def _device_config(job: Job) -> tf.compat.v1.ConfigProto:
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.allow_growth = job.gpu_memory_growth
    if job.gpus >= 0:
        config.device_count["GPU"] = job.gpus
    return config


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local(host: str) -> bool:
    """Whether this machine has the address; True when the name does not resolve (the probe reports that)."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return True
    for family, kind, protocol, _, name in found:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind(name)
                return True
            except OSError:
                continue
    return False


def _holder(port: int) -> str:
    """` (held by pid 12: python server.py)` where /proc tells, else nothing."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        listening = "0A"
        inodes |= {row[9] for row in rows if row[3] == listening and int(row[1].rpartition(":")[2], 16) == port}
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) in {f"socket:[{inode}]" for inode in inodes}:
                pid = link.split("/")[2]
                with open(f"/proc/{pid}/cmdline") as command:
                    return f" (held by pid {pid}: {command.read().replace(chr(0), ' ').strip()[:120]})"
        except OSError:
            continue
    return ""
