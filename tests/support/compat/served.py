"""A cluster of an Estimator program inside the test: its ps serve in threads, and the test is worker 0.

with served(num_ps=2, monkeypatch) as cluster:      # TF_CONFIG names this process as worker:0
    Estimator(model_fn, config=RunConfig(...)).train(input_fn, max_steps=10)
"""

from __future__ import annotations

import atexit
import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.console import Console
from ps_train.commands.launch.port_reservation import PortReservation
from ps_train.compat.capture.job_of_config import cluster_job
from ps_train.config.job import Task
from ps_train.estimator import RunConfig
from ps_train.training.tasks import ps

_END_SECS = 30


@contextlib.contextmanager
def served(num_ps: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[str]]]:
    """Serves as all ps within the body; afterwards the worker has left, and the ps have ended."""
    ports = PortReservation()
    hosts = [ports.reserve() for _ in range(num_ps + 1)]
    for reserved in ports.sockets.values():
        reserved.close()
    cluster = {"ps": hosts[:num_ps], "worker": hosts[num_ps:]}
    leaves: list[Callable[[], Any]] = []
    with monkeypatch.context() as patch:
        patch.setattr(atexit, "register", lambda function, *args, **options: leaves.append(function))
        patch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
        job = cluster_job(RunConfig("unused"))
        console = Console(sys.stdout, sys.stderr)
        threads = [
            threading.Thread(target=ps.run, args=(job, Task("ps", index), console), daemon=True)
            for index in range(num_ps)
        ]
        for thread in threads:
            thread.start()
        try:
            yield cluster
        finally:
            for leave in leaves:
                leave()
            for thread in threads:
                thread.join(_END_SECS)
            for host in hosts:
                threading.Thread(target=v1.Session.reset, args=[f"grpc://{host}"], daemon=True).start()
    assert not any(thread.is_alive() for thread in threads)
