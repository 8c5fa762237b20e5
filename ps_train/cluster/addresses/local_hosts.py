"""The host lists of a job whose tasks all run on this machine.

    job = with_local_hosts(Job(num_ps=1, num_workers=2))    # ps_hosts=("127.0.0.1:1",), worker_hosts of two addresses
    job = with_local_hosts(job, ports.reserve)              # with ports on which the tasks can serve

Imports no TensorFlow and never uses the network.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

from ps_train.config.cluster_fields import asked_ps
from ps_train.config.job import Job


def with_local_hosts(job: Job, reserve: Callable[[], str] | None = None) -> Job:
    """Returns a job with host lists in the place of its numbers of tasks; one that has host lists stays as it is.

    Args:
      job: gives the numbers of ps and workers.
      reserve: returns an address for the next task; None for made-up ports, which no task can serve on.
    """
    if job.ps_hosts or job.worker_hosts or job.chief_hosts:
        return job
    ports = itertools.count(1)
    address = reserve or (lambda: f"127.0.0.1:{next(ports)}")
    ps = tuple(address() for _ in range(asked_ps(vars(job), default=1)))
    workers = tuple(address() for _ in range(job.num_workers or 2))
    return dataclasses.replace(job, num_ps=None, num_workers=None, ps_hosts=ps, worker_hosts=workers)
