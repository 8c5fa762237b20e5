"""Kubernetes: the names of pods, and the cluster that they are in."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.kubernetes import resolve

GIVEN = {"port": 2222, "num_ps": 1, "num_workers": 2, "k8s_service": "train"}


def refusal(environ, **changes):
    with pytest.raises(ConfigError) as caught:
        resolve({**GIVEN, **changes}, environ)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("prefix", ["", "job-", "my-job.v2-"])
def test_two_sets_have_a_job_each(prefix):
    pod = f"{prefix}worker-1"
    found = resolve(GIVEN, {"HOSTNAME": pod.partition(".")[0] if "." not in pod else pod.replace(".", "-")})
    prefix = prefix.replace(".", "-")
    assert found.task == {"job_name": "worker", "task_index": 1}
    assert found.job["ps_hosts"] == (f"{prefix}ps-0.train:2222",)
    assert found.job["worker_hosts"] == (f"{prefix}worker-0.train:2222", f"{prefix}worker-1.train:2222")


@pytest.mark.parametrize(("rank", "task"), [(0, ("ps", 0)), (1, ("worker", 0)), (2, ("worker", 1))])
@pytest.mark.parametrize("has_index", [False, True])
def test_in_one_set_or_indexed_job_the_first_pods_are_ps(rank, task, has_index):
    environ = {"HOSTNAME": f"name-{rank}", **({"JOB_COMPLETION_INDEX": str(rank)} if has_index else {})}
    found = resolve({**GIVEN, "k8s_service": "train.ns.svc.cluster.local"}, environ)
    assert found.task == {"job_name": task[0], "task_index": task[1]}
    assert found.job["ps_hosts"] == ("name-0.train.ns.svc.cluster.local:2222",)
    assert found.job["worker_hosts"][1] == "name-2.train.ns.svc.cluster.local:2222"


def test_a_full_host_name_counts_by_its_first_label():
    assert resolve(GIVEN, {"HOSTNAME": "x-ps-0.train.ns.svc"}).job["ps_hosts"] == ("x-ps-0.train:2222",)


@pytest.mark.parametrize(
    "pod", ["name", "name-", "-3", "3", "name-x", "Name_1", "name-3x", "name-1234567", "localhost"]
)
def test_a_pod_without_a_number_is_refused(pod):
    assert "does not end with a number" in refusal({"HOSTNAME": pod})


@pytest.mark.parametrize("pod", ["name-3", "a-ps-1", "a-worker-2", "name-99"])
def test_a_number_beyond_the_replicas_is_refused(pod):
    assert "out of range" in refusal({"HOSTNAME": pod})


@pytest.mark.parametrize("name", ["k8s_service", "num_ps", "num_workers"])
def test_what_the_pods_name_does_not_tell_must_be_given(name):
    assert f"{name} is not given" in refusal({"HOSTNAME": "a-0"}, **{name: None})


@pytest.mark.parametrize("service", ["-a", "a.", ".a", "a..b", "a b", "A", "a:1", "a/b", "x" * 64])
def test_a_service_that_is_no_name_is_refused(service):
    assert "k8s_service" in refusal({"HOSTNAME": "a-0"}, k8s_service=service)


@pytest.mark.parametrize("index", ["1", "x", "", "-0"])
def test_an_index_of_the_job_that_disagrees_is_refused(index):
    for pod in ("a-0", "a-worker-0"):
        assert "JOB_COMPLETION_INDEX" in refusal({"HOSTNAME": pod, "JOB_COMPLETION_INDEX": index})


@pytest.mark.parametrize("pod", ["worker-1", "train-1"])
def test_all_pods_are_workers_where_they_hold_the_variables(pod):
    found = resolve({**GIVEN, "num_ps": 0}, {"HOSTNAME": pod})
    assert found.task == {"job_name": "worker", "task_index": 1}
    assert found.job["ps_hosts"] == () and len(found.job["worker_hosts"]) == 2
