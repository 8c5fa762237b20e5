"""Checks of a job before any process starts: what is refused, and that nothing is left behind."""

from __future__ import annotations

import os
import socket

import pytest

from ps_train.base.errors import ConfigError, ModelError
from ps_train.commands.launch import preflight
from ps_train.commands.launch.preflight import check_local_job, check_task
from ps_train.config.job import Job, Task

HOSTS = {"ps_hosts": ("localhost:2222",), "worker_hosts": ("127.0.0.1:2223", "[::1]:2224")}


def local_refusal(has_job_name=False, **fields):
    with pytest.raises((ConfigError, ModelError)) as caught:
        check_local_job(Job(**fields), has_job_name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def task_refusal(task, **fields):
    with pytest.raises((ConfigError, ModelError)) as caught:
        check_task(Job(**{**HOSTS, **fields}), task)
    return str(caught.value)


def test_the_default_job_is_accepted_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_local_job(Job(), has_job_name=False)
    check_local_job(Job(model_dir="a/b/c", export_dir="d/e"), has_job_name=False)
    assert list(tmp_path.iterdir()) == []


def test_host_lists_without_a_job_name_are_refused_with_what_is_missing():
    message = local_refusal(**HOSTS, sources={"ps_hosts": "job.flags:3"})
    assert "ps_hosts=localhost:2222 (from job.flags:3) is given without job_name" in message
    assert "--job_name=ps" in message and "--task_index=N" in message and "--job_name=local" in message


def test_host_lists_of_this_machine_may_be_started_here():
    check_local_job(Job(**HOSTS), has_job_name=True)
    check_local_job(Job(ps_hosts=(f"{socket.gethostname()}:2222",), worker_hosts=("127.0.0.2:1",)), has_job_name=True)


@pytest.mark.parametrize("host", ["192.0.2.1", "host-a.invalid", "[2001:db8::1]"])
def test_a_task_of_another_machine_is_not_started_here(host):
    message = local_refusal(True, ps_hosts=("localhost:1",), worker_hosts=("localhost:2", f"{host}:3"))
    assert f"worker:1 is to run on {host.strip('[]')}, which is not this machine" in message
    assert "--job_name=worker --task_index=1" in message


def test_a_name_that_is_not_resolved_soon_is_remote(monkeypatch):
    asked = []

    def resolve(host, *arguments, **options):
        asked.append(host)
        raise socket.gaierror

    monkeypatch.setattr(preflight.socket, "getaddrinfo", resolve)
    assert "is not this machine" in local_refusal(True, ps_hosts=("a:1",), worker_hosts=("b:2",))
    assert asked == ["a"]


@pytest.mark.parametrize("name", ["num_ps", "num_workers"])
def test_a_number_of_tasks_and_host_lists_are_refused(name):
    assert f"{name}=1" in local_refusal(True, **HOSTS, **{name: 1})


@pytest.mark.parametrize("name", ["num_ps", "num_workers"])
def test_more_tasks_than_one_machine_bears_are_refused(name):
    assert f"{name}=50000 is too much" in local_refusal(**{name: 50000})


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"min_workers": 3}, "min_workers=3 is too much for a job of 2 workers"),
        ({"num_workers": 1, "update": "sync", "backup_workers": 1}, "backup_workers=1 is too much"),
        ({"max_workers": 1}, "max_workers=1 is too few"),
        ({"inject_fault": ("kill:ps:1@10",)}, "there is no ps:1"),
        ({"model": "no_such_module:Net"}, "there is no module 'no_such_module'"),
        ({"model_arg": ("hiden=3",)}, "model_arg hiden is not an argument"),
        ({"data_dir": "/no/such/dir"}, "data_dir=/no/such/dir does not exist"),
        ({"model_dir": "/dev/null"}, "/dev/null is not a directory"),
        ({"model_dir": "/dev/null/x/y"}, "/dev/null is not a directory"),
        ({"model_dir": "/proc/x"}, "model_dir=/proc/x cannot be written to"),
        ({"export_dir": "/proc/x"}, "export_dir=/proc/x cannot be written to"),
        ({"log_dir": "/proc/x"}, "log_dir=/proc/x cannot be written to"),
        ({"model_dir": "x" * 300}, "File name too long"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(fields, part):
    assert part in local_refusal(**fields)


def test_a_refused_directory_leaves_no_other_behind(tmp_path):
    local_refusal(model_dir=str(tmp_path / "a" / "b"), export_dir="/proc/x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["model_dir", "data_dir"])
def test_a_directory_that_is_there_stays_as_it_is(tmp_path, name):
    (tmp_path / "file").write_text("x")
    check_local_job(Job(**{name: str(tmp_path)}), has_job_name=False)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("task", "part"), [(Task("worker", 0), "worker:0 is the chief"), (Task("evaluator", 0), "an evaluator needs")]
)
def test_a_task_that_needs_a_model_dir_is_refused_without_one(task, part):
    message = task_refusal(task)
    assert "model_dir is not given" in message and part in message and "--model_dir" in message


def test_only_the_chief_needs_a_model_dir_and_a_place_for_it(tmp_path):
    check_task(Job(**HOSTS), Task("ps", 0))
    check_task(Job(**HOSTS), Task("worker", 1))
    check_task(Job(**HOSTS, model_dir="/proc/x"), Task("worker", 1))
    check_task(Job(**HOSTS, model_dir=str(tmp_path / "m")), Task("worker", 0))
    assert "cannot be written to" in task_refusal(Task("worker", 0), model_dir="/proc/x")


def test_a_ps_needs_no_model():
    check_task(Job(**HOSTS, model="no_such_module:Net"), Task("ps", 0))
    assert "no_such_module" in task_refusal(Task("worker", 1), model="no_such_module:Net")


def test_an_unknown_task_is_refused():
    assert "task_index=2 is out of range" in task_refusal(Task("worker", 2))
