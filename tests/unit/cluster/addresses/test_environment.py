"""Environment variables that a process changes before it imports TensorFlow."""

from __future__ import annotations

import pytest

from ps_train.cluster.addresses import environment
from ps_train.config.job import Job, Task

JOB = Job(ps_hosts=("p:1",), worker_hosts=("w:1", "[::1]:2"))


def settings(job_name="worker", environ=None, **fields):
    job = Job(ps_hosts=JOB.ps_hosts, worker_hosts=JOB.worker_hosts, **fields)
    return environment.task_environment(Task(job_name, 0), job, environ or {}, cores=8)


def test_tensorflow_is_silenced():
    assert settings() == {"TF_CPP_MIN_LOG_LEVEL": "3"}


def test_a_verbose_job_hears_tensorflow():
    assert settings(verbose=True) == {}


@pytest.mark.parametrize("level", ["0", "3"])
def test_a_log_level_that_the_user_has_set_is_left_alone(level):
    assert settings(environ={"TF_CPP_MIN_LOG_LEVEL": level}) == {}


def test_a_port_is_never_shared_with_another_server():
    assert settings(environ={"TF_GRPC_REUSE_PORT": "1"})["TF_GRPC_REUSE_PORT"] is None


@pytest.mark.parametrize("environ", [{}, {"CUDA_VISIBLE_DEVICES": "0,1"}])
def test_a_ps_never_sees_a_gpu(environ):
    assert settings("ps", environ)["CUDA_VISIBLE_DEVICES"] == "-1"


@pytest.mark.parametrize("job_name", ["worker", "chief", "evaluator"])
def test_all_but_a_ps_see_the_gpus_that_there_are(job_name):
    assert "CUDA_VISIBLE_DEVICES" not in settings(job_name, {"CUDA_VISIBLE_DEVICES": "0,1"})


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"])
def test_with_a_proxy_the_hosts_of_the_cluster_are_reached_without_it(name):
    assert settings(environ={name: "http://proxy:3128"})["no_proxy"] == "p,w,::1"


def test_hosts_are_added_to_those_that_the_user_reaches_without_a_proxy():
    changes = settings(environ={"http_proxy": "http://proxy:3128", "no_proxy": "w,intranet"})
    assert changes["no_proxy"] == "w,intranet,p,::1"


def test_nothing_is_changed_where_all_hosts_are_reached_without_a_proxy_already():
    assert "no_proxy" not in settings(environ={"http_proxy": "http://proxy:3128", "no_proxy": "p,w,::1"})


@pytest.mark.parametrize("environ", [{}, {"http_proxy": ""}, {"no_proxy": "intranet"}])
def test_without_a_proxy_no_host_needs_an_exception(environ):
    assert "no_proxy" not in settings(environ=environ)


def test_an_evaluator_knows_no_hosts():
    changes = environment.task_environment(Task("evaluator", 0), Job(), {"http_proxy": "http://proxy:3128"}, cores=8)
    assert "no_proxy" not in changes


@pytest.mark.parametrize(
    ("workers", "cores", "threads"), [(2, 2, "1"), (2, 8, "4"), (3, 8, "2"), (4, 2, "1"), (1, 8, None)]
)
def test_workers_of_one_host_share_its_cores(workers, cores, threads):
    hosts = tuple(f"a:{port}" for port in range(1, 1 + workers)) + ("b:1", "b:2")
    job = Job(ps_hosts=("a:9",), worker_hosts=hosts)
    for task in (Task("worker", 0), Task("ps", 0)):
        changes = environment.task_environment(task, job, {}, cores)
        assert changes.get("TF_NUM_INTRAOP_THREADS") == threads
        if task.job_name == "worker":
            assert changes.get("TF_NUM_INTEROP_THREADS") == threads
        elif threads is not None:
            assert int(changes["TF_NUM_INTEROP_THREADS"]) == max(4, int(threads)), "others answer for the board"
    changes = environment.task_environment(Task("worker", 0), job, {"TF_NUM_INTRAOP_THREADS": "7"}, cores)
    assert "TF_NUM_INTRAOP_THREADS" not in changes and ("TF_NUM_INTEROP_THREADS" in changes) == (threads is not None)


@pytest.mark.parametrize(
    ("workers", "cores", "shares"),
    [
        (2, 2, ["0", "1"]),
        (2, 8, ["0 1 2 3", "4 5 6 7"]),
        (3, 8, ["0 1", "2 3 4", "5 6 7"]),
        (4, 2, ["0 1"] * 4),
        (1, 2, ["0 1"]),
    ],
)
def test_each_worker_of_a_host_runs_on_cores_of_its_own_if_there_are_enough(workers, cores, shares):
    hosts = ("b:1", *(f"a:{port}" for port in range(1, 1 + workers)), "b:2")
    job = Job(ps_hosts=("a:9",), worker_hosts=hosts)
    found = [
        environment.cores_of(Task("worker", index), job, {}, list(range(cores)), cores)
        for index in range(1, 1 + workers)
    ]
    assert [" ".join(map(str, one)) for one in found] == shares


@pytest.mark.parametrize("job_name", ["ps", "evaluator"])
def test_only_workers_have_cores_of_their_own(job_name):
    job = Job(ps_hosts=("a:9",), worker_hosts=("a:1", "a:2"))
    assert environment.cores_of(Task(job_name, 0), job, {}, [0, 1], 2) == [0, 1]
    if job_name == "evaluator":
        assert environment.cores_of(Task(job_name, 0), Job(), {}, [0, 1], 2) == [0, 1], "it needs no cluster"


def test_cores_and_threads_that_something_else_has_chosen_stay():
    job = Job(ps_hosts=("a:9",), worker_hosts=("a:1", "a:2"))
    assert environment.cores_of(Task("worker", 0), job, {}, [0, 1, 2, 3], 8) == [0, 1, 2, 3], "taskset, Slurm"
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        assert environment.cores_of(Task("worker", 0), job, {name: "2"}, [0, 1, 2, 3], 4) == [0, 1, 2, 3]
    assert environment.cores_of(Task("worker", 1), job, {}, [0, 1, 2, 3], 4) == [2, 3]


def test_settings_change_nothing_by_themselves():
    environ = {"TF_GRPC_REUSE_PORT": "1", "http_proxy": "http://proxy:3128"}
    before = dict(environ)
    assert settings("ps", environ)
    assert environ == before


def test_changes_are_applied_and_none_removes_a_variable():
    environ = {"A": "1", "B": "2", "C": "3"}
    environment.apply({"A": None, "B": "9", "D": "4", "NEVER_THERE": None}, environ)
    assert environ == {"B": "9", "C": "3", "D": "4"}


def test_a_process_with_all_changes_applied_needs_no_more():
    environ = {"TF_GRPC_REUSE_PORT": "1", "http_proxy": "http://proxy:3128"}
    environment.apply(settings("ps", environ), environ)
    assert settings("ps", environ) == {}


@pytest.mark.parametrize("hosts", [("a:1",), ("b:1",)], ids=["beside one worker", "alone"])
def test_a_ps_has_threads_to_spare_on_a_small_host_whoever_is_beside_it(hosts):
    job = Job(ps_hosts=("a:9",), worker_hosts=hosts)
    changes = environment.task_environment(Task("ps", 0), job, {}, cores=2)
    assert changes["TF_NUM_INTEROP_THREADS"] == "4" and "TF_NUM_INTRAOP_THREADS" not in changes
    assert "TF_NUM_INTEROP_THREADS" not in environment.task_environment(Task("ps", 0), job, {}, cores=8)


def test_a_worker_that_is_a_ps_has_the_threads_of_one_and_keeps_its_gpus():
    job = Job(worker_hosts=("w:1", "w:2"), ps_on_workers=True)
    found = environment.task_environment(Task("worker", 0), job, {}, cores=2)
    assert (found["TF_NUM_INTRAOP_THREADS"], found["TF_NUM_INTEROP_THREADS"]) == ("1", "4")
    assert "CUDA_VISIBLE_DEVICES" not in found
