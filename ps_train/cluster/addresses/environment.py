"""Environment variables that must be set before TensorFlow reads them.

    changes = task_environment(task, job, os.environ, cores=8)      # {"no_proxy": "...", "TF_GRPC_REUSE_PORT": None}
    apply(changes, os.environ)

A value of None removes the variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job, Task

_PROXIES = ("grpc_proxy", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")

_PS_THREADS = 4


def task_environment(task: Task, job: Job, environ: Mapping[str, str], cores: int) -> dict[str, str | None]:
    """Returns the changes that a process needs.  Pure.

    Args:
      task: of the process.
      job: the job's settings.
      environ: the present environment.
      cores: the number of processors that the process may use.

    Returns:
      The variables to change; None removes one.
    """
    changes: dict[str, str | None] = {**import_environment(job, environ)}
    if "TF_GRPC_REUSE_PORT" in environ:
        # With it a second server on the same port starts without an error and takes half of the calls.
        changes["TF_GRPC_REUSE_PORT"] = None
    if task.job_name == "ps":
        # TensorFlow takes all memory of every GPU it sees; a ps computes nothing that a GPU would speed up.
        changes["CUDA_VISIBLE_DEVICES"] = "-1"
    neighbours = _workers_beside(task, job) if task.job_name != "evaluator" else 1
    fair = max(1, cores // max(1, neighbours))
    # A ps initialises or saves a large variable for seconds; another thread must then serve the key-value store.
    is_ps = task.job_name != "evaluator" and Cluster.of(job).ps_of(task) is not None
    operations = max(fair, _PS_THREADS) if is_ps else fair
    for name, threads in (("TF_NUM_INTRAOP_THREADS", fair), ("TF_NUM_INTEROP_THREADS", operations)):
        # With as many threads as cores in every process, they take the cores from one another and wait for one another.
        if threads != cores and name not in environ:
            changes[name] = str(threads)
    if task.job_name != "evaluator":
        changes |= without_proxy([address.host for address in Cluster.of(job).tasks().values()], environ)
    return {name: value for name, value in changes.items() if value != environ.get(name)}


def import_environment(job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the changes that TensorFlow reads at its import; they are the same for all tasks.

    TensorFlow reads the other variables when a server or a session is made.
    """
    return {} if job.verbose else {"TF_CPP_MIN_LOG_LEVEL": environ.get("TF_CPP_MIN_LOG_LEVEL", "3")}


def without_proxy(hosts: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the change that keeps a proxy away from hosts: gRPC sends even calls to localhost through it."""
    if not any(environ.get(name) for name in _PROXIES):
        return {}
    name = "no_grpc_proxy" if environ.get("no_grpc_proxy") else "no_proxy"  # gRPC heeds only the first that is set
    already = [host for host in environ.get(name, "").split(",") if host]
    return {name: ",".join(dict.fromkeys([*already, *hosts]))}


def apply(changes: Mapping[str, str | None], environ: MutableMapping[str, str]) -> None:
    """Makes the changes in `environ`."""
    for name, value in changes.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value


def _workers_beside(task: Task, job: Job) -> int:
    """Returns the number of workers on the host of this task."""
    tasks = Cluster.of(job).tasks()
    own = tasks.get(str(task))
    workers = [address for name, address in tasks.items() if not name.startswith("ps:")]
    return sum(own is not None and address.host == own.host for address in workers)
