"""The health endpoint of a task, for probes such as those of Kubernetes: the process runs, and is not stopped.

    server = serve_health(job, task)       # GET /healthz: 200, "ok worker:1"

It does not judge the job.  A task whose job does not go on ends by its own time-outs, with an exit code.
"""

from __future__ import annotations

import logging

from ps_train.base.http_server import HttpServer
from ps_train.config.job import Job, Task

log = logging.getLogger(__name__)

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def serve_health(job: Job, task: Task) -> HttpServer | None:
    """Starts the endpoint in a daemon thread; returns None if the job has no health_port.

    Raises:
      ConfigError: the port cannot be opened.
    """
    if job.health_port is None or job.health_port < 0:
        return None
    answer = ("text/plain; charset=utf-8", f"ok {task}\n")
    server = HttpServer(job.status_host, job.health_port, {"/healthz": lambda: answer}, _HEADERS, "health_port")
    server.start()
    log.info("%s answers %shealthz", task, server.address)
    return server
