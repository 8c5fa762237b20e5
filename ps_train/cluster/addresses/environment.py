"""What a process sets before TensorFlow is there: environment variables, and the cores that are a worker's share.

    changes = task_environment(task, job, os.environ, cores=8)      # {"no_proxy": "...", "TF_GRPC_REUSE_PORT": None}
    apply(changes, os.environ)
    cores_of(Task("worker", 1), job, os.environ, [0, 1, 2, 3], host_cores=4)      # [2, 3]: of two workers there

A value of None removes the variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job, Task

_PROXIES = ("grpc_proxy", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")

_PS_THREADS = 4

_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


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
    neighbours = len(_workers_beside(task, job))
    fair = max(1, cores // max(1, neighbours))
    # A ps initialises or saves a large variable for seconds; another thread must then serve the key-value store.
    is_ps = task.job_name != "evaluator" and Cluster.of(job).ps_of(task) is not None
    operations = max(fair, _PS_THREADS) if is_ps else fair
    for name, threads in zip(_THREADS, (fair, operations), strict=True):
        # With as many threads as cores in every process, they take the cores from one another and wait for one another.
        if threads != cores and name not in environ:
            changes[name] = str(threads)
    if task.job_name != "evaluator":
        changes |= without_proxy([address.host for address in Cluster.of(job).tasks().values()], environ)
    return {name: value for name, value in changes.items() if value != environ.get(name)}


def cores_of(task: Task, job: Job, environ: Mapping[str, str], cores: Sequence[int], host_cores: int) -> Sequence[int]:
    """Returns the cores on which a process should run: a worker's share of its host's, or all that it has.

    The threads of a worker that shares its cores with nobody wait for nobody, while an idle core is often not used for
    a thread that waits for another one.  A choice of the user or of a scheduler stays: cores of the process that are
    fewer than the host's, or numbers of threads in the environment.

    Args:
      task: of the process.
      job: the job's settings.
      environ: the environment before `task_environment` changed it.
      cores: those that the process may use, neighbours beside each other.
      host_cores: the number of cores of the host.
    """
    workers = _workers_beside(task, job)
    is_chosen = len(cores) < host_cores or any(name in environ for name in _THREADS)
    if str(task) not in workers or is_chosen or len(cores) < len(workers):
        return cores
    place = workers.index(str(task))
    return cores[len(cores) * place // len(workers) : len(cores) * (place + 1) // len(workers)]


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


def _workers_beside(task: Task, job: Job) -> Sequence[str]:
    """Returns the names of the workers on the host of this task; none for an evaluator, which needs no cluster."""
    if task.job_name == "evaluator":
        return []
    tasks = Cluster.of(job).tasks()
    own = tasks.get(str(task))
    if own is None:
        return []
    return [name for name, address in tasks.items() if not name.startswith("ps:") and address.host == own.host]
