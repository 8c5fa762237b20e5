"""Checks of a job before any process starts, in a fraction of a second and without TensorFlow.

    check_local_job(job, has_job_name=False)      # the launcher, before it starts the tasks
    check_task(job, Task("worker", 0))            # a task of a cluster, before it imports TensorFlow

They leave nothing behind.  What only the import of the model can tell is checked after it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import EXTRAS, scheme_of
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.cluster.topology import known_topology, rack_port_of
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.fault_spec import check_tasks, parse
from ps_train.config.fields import source_of
from ps_train.config.file_systems import check_package
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described
from ps_train.config.output_fields import parse_profile
from ps_train.config.tracker_check import check_tracker
from ps_train.modeling.file_check import check_model_file


def flags_without_effect(job: Job, task: Task) -> list[str]:
    """Returns a line for each given flag that this process ignores.

    All processes of a job may share a flagfile, so flags for other tasks are not listed.  An evaluator is started with
    the flags of the job, those of a cluster on this machine among them.
    """
    lines = []
    if task.job_name == "local" and task.task_index is not None:
        lines.append(
            f"task_index={task.task_index}{source_of(job.sources, 'task_index')} has no effect: without --job_name a "
            "whole cluster is started here; add --job_name, or leave --task_index out."
        )
    if task.job_name == "local" and job.health_port is not None and job.health_port >= 0:
        lines.append(f"{described(job, 'health_port')} has no effect: it is for tasks that are started on their own.")
    if task.job_name not in ("local", "evaluator"):
        has_indices = any("=" in host for host in job.worker_hosts)
        numbers = () if job.cluster_from not in ("auto", "none", "tf_config") else ("num_ps", "num_workers")
        for name in ("max_restarts", *(name for name in numbers if name == "num_ps" or not has_indices)):
            if name in job.sources and getattr(job, name) != 0:
                lines.append(
                    f"{described(job, name)} has no effect on {task.job_name}: it is for a cluster that one command "
                    "starts on this machine."
                )
    first = parse_profile(job.profile)
    if first is not None and first[0] >= job.max_steps:
        lines.append(f"{described(job, 'profile')} has no effect: the job ends at max_steps={job.max_steps}.")
    return lines


_MOST_TASKS = 200
"""Tasks of a cluster on one machine: each is a process with hundreds of MB."""

_RESOLVE_SECS = 0.5


def check_local_job(job: Job, has_job_name: bool) -> None:
    """Checks the job of a cluster on this machine.

    Args:
      job: with the model's path and arguments.
      has_job_name: False if the user did not say which task this process is.

    Raises:
      ConfigError: the job cannot run; the text is one line.
    """
    hosts = [name for name in HOST_LISTS if getattr(job, name)]
    if hosts:
        cluster = Cluster.of(job)
        if not has_job_name:
            raise _no_task(job, hosts[0])
        _refuse_remote(cluster)
        for name in ("num_ps", "num_workers"):
            if getattr(job, name):
                raise ConfigError(f"{described(job, name)} and host lists are both given: use one of them.")
    else:
        for name in ("num_ps", "num_workers"):
            if (getattr(job, name) or 0) > _MOST_TASKS:
                raise ConfigError(f"{described(job, name)} is too much for one machine: use at most {_MOST_TASKS}.")
        cluster = Cluster.of(with_local_hosts(job))
    known_topology(job, cluster.chief, cluster)
    check_tasks(parse(job.inject_fault), list(cluster.tasks()))
    check_tracker(job)
    check_model_file(job.model, job.model_arguments(), job.sources)
    _check_data_dir(job)
    for name in ("model_dir", "export_dir", "log_dir"):
        _check_writable(job, name)


def check_task(job: Job, task: Task) -> None:
    """Checks the job of one task of a cluster.

    Raises:
      ConfigError: the task cannot run; the text is one line.
    """
    if task.job_name != "evaluator":
        cluster = Cluster.of(job)
        cluster.address(task)
        known_topology(job, task, cluster)
        is_chief = task == cluster.chief
        rack_port_of(job, cluster, task)
        if is_chief and not job.model_dir:
            raise ConfigError(
                f"model_dir is not given: {task} is the chief and needs --model_dir, or model_dir in TF_CONFIG, to "
                "save checkpoints in."
            )
    elif not job.model_dir:
        raise ConfigError("model_dir is not given: an evaluator needs --model_dir, the directory of the checkpoints.")
    if task.job_name == "ps":
        return
    check_model_file(job.model, job.model_arguments(), job.sources)
    _check_data_dir(job)
    if task.job_name != "evaluator" and is_chief:
        check_tracker(job)
        for name in ("model_dir", "export_dir"):
            _check_writable(job, name)


def _no_task(job: Job, name: str) -> ConfigError:
    """Returns the error for host lists without the task of this process."""
    if job.sources.get(name) == "TF_CONFIG":
        return ConfigError(
            'TF_CONFIG has a cluster but no task: add "task": {"type": "worker", "index": 0}, or give --job_name and '
            "--task_index."
        )
    return ConfigError(
        f"{described(job, name)} is given without job_name: add --job_name=ps (or worker, chief) and --task_index=N "
        "for one task, or --job_name=local to start all tasks on this machine."
    )


def _refuse_remote(cluster: Cluster) -> None:
    for name, address in cluster.tasks().items():
        if not _is_of_this_machine(address.host):
            raise ConfigError(
                f"{name} is to run on {address.host}, which is not this machine: start it there, with "
                f"--job_name={name.partition(':')[0]} --task_index={name.partition(':')[2]}; --job_name=local starts "
                "tasks on this machine only."
            )


def _is_of_this_machine(host: str) -> bool:
    """Returns whether this machine has an address; a name that is not resolved soon counts as remote."""
    if host in ("localhost", socket.gethostname()):
        return True
    found: list[tuple[socket.AddressFamily, str]] = []

    def resolve() -> None:
        with contextlib.suppress(OSError):
            found.extend((entry[0], str(entry[4][0])) for entry in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM))

    resolver = threading.Thread(target=resolve, daemon=True)
    resolver.start()
    resolver.join(_RESOLVE_SECS)
    for family, address in list(found):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
            return True
    return False


def _check_data_dir(job: Job) -> None:
    if job.data_dir and not scheme_of(job.data_dir) and not os.path.exists(job.data_dir):
        raise ConfigError(f"{described(job, 'data_dir')} does not exist: use the directory of the data files.")


def _check_writable(job: Job, name: str) -> None:
    """Raises ConfigError if a directory cannot be made or written to."""
    path = getattr(job, name)
    if name == "model_dir" and scheme_of(path) in EXTRAS:  # the model's module may add other file systems
        check_package(job)
    if not path or scheme_of(path):
        return
    path = os.path.abspath(path)
    missing, folder = [], path
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise ConfigError(f"{described(job, name)}: {folder} is not a directory: use another path.")
    try:
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"x")
    except OSError as error:
        raise ConfigError(
            f"{described(job, name)} cannot be written to ({error.strerror}): use another directory."
        ) from None
    finally:
        for made in missing:
            with contextlib.suppress(OSError):  # it is not empty: another process uses it
                os.rmdir(made)
