"""Differences between the jobs that two processes describe."""

from __future__ import annotations

import json

import pytest

from ps_train.cluster.membership.job_diff import cluster_fields, diff_configs, job_fingerprint
from ps_train.config.job import Job


def compared(theirs, mine):
    return diff_configs(theirs, mine, "the chief", "worker:1")


def jobs_compared(theirs, mine):
    common = {"ps_hosts": ("p:1",), "worker_hosts": ("a:1",)}
    left, right = Job(**{**common, **theirs}), Job(**{**common, **mine})
    return compared(json.loads(json.dumps(job_fingerprint(left))), job_fingerprint(right))


def test_the_same_job_has_no_differences():
    assert jobs_compared({"worker_hosts": ("a:1",), "seed": 4}, {"worker_hosts": ("a:1",), "seed": 4}) == []


def test_a_difference_names_field_values_and_both_sides():
    assert compared({"max_steps": 100}, {"max_steps": 200}) == ["max_steps: 100 at the chief, 200 at worker:1"]


def test_every_field_that_differs_has_a_line():
    lines = jobs_compared({"seed": 1, "update": "sync", "max_steps": 5}, {"seed": 2, "update": "async", "max_steps": 5})
    assert [line.partition(":")[0] for line in lines] == ["seed", "update"]


def test_a_field_that_one_side_has_not_is_missing_there():
    assert compared({"variable w": "[2] float32"}, {}) == ["variable w: [2] float32 at the chief, missing at worker:1"]
    assert compared({}, {"variable w": "[2] float32"}) == ["variable w: missing at the chief, [2] float32 at worker:1"]


def test_lists_are_shown_as_they_are_written_on_the_command_line():
    (line,) = compared({"ps_hosts": ["a:1", "b:1"]}, {"ps_hosts": ["b:1", "a:1"]})
    assert "a:1,b:1 at the chief" in line
    assert "b:1,a:1 at worker:1" in line


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("a:1", "b:1"), ("1=b:1",)),
        (("1=b:1",), ("a:1", "b:1")),
        (("0=a:1", "1=b:1"), ("1=b:1",)),
        (("0=a:1",), ("1=b:1",)),
        (("0=a:1", "1=b:1"), ("a:1", "b:1")),
    ],
)
def test_worker_lists_with_gaps_agree_where_both_name_a_worker(left, right):
    assert compared({"worker_hosts": list(left)}, {"worker_hosts": list(right)}) == []


@pytest.mark.parametrize("right", [("1=c:1",), ("0=a:1", "1=c:1"), ("0=b:1",)])
def test_worker_lists_with_gaps_differ_where_they_name_the_same_worker_differently(right):
    (line,) = compared({"worker_hosts": ["a:1", "b:1"]}, {"worker_hosts": list(right)})
    assert line.startswith("worker_hosts")


def test_plain_worker_lists_of_different_length_differ():
    assert len(compared({"worker_hosts": ["a:1", "b:1"]}, {"worker_hosts": ["a:1"]})) == 1


def test_only_worker_lists_may_have_gaps():
    assert len(compared({"ps_hosts": ["a:1", "b:1"]}, {"ps_hosts": ["1=b:1"]})) == 1


def test_a_worker_that_knows_only_itself_agrees_with_a_chief_that_knows_all():
    chief, worker = {"worker_hosts": ("a:1", "b:1")}, {"worker_hosts": ("1=b:1",), "num_workers": 2}
    assert jobs_compared(chief, worker) == []


@pytest.mark.parametrize("chief", [{"worker_hosts": ("0=a:1",)}, {"worker_hosts": ("0=a:1",), "num_workers": 3}])
def test_processes_that_count_different_numbers_of_workers_differ(chief):
    """Each takes its share of the data by this number, so a silent difference would train on the wrong data."""
    assert jobs_compared(chief, {"worker_hosts": ("1=b:1",), "num_workers": 2}) != []


def test_all_that_matters_to_a_ps_is_the_host_lists():
    job = Job(ps_hosts=("p:1",), worker_hosts=("a:1",), chief_hosts=("c:1",), max_steps=3)
    assert cluster_fields(job.shared_fields()) == {
        "ps_hosts": ["p:1"],
        "worker_hosts": ["a:1"],
        "chief_hosts": ["c:1"],
        "max_workers": 0,
    }


def test_host_lists_of_a_file_agree_whatever_stands_in_it_now_but_for_their_number():
    def of(*ps, workers=("a:1",)):
        return job_fingerprint(Job(ps_hosts=ps, worker_hosts=workers, cluster_file="hosts.json"))

    assert compared(of("p:1", "q:1"), of("p:1", "r:1")) == []
    assert compared(of("p:1"), of("p:1", "r:1")) == ["ps_hosts: 1 at the chief, 2 at worker:1"]


def test_in_an_elastic_job_a_worker_may_be_named_that_others_do_not_know():
    def of(*workers):
        return job_fingerprint(Job(ps_hosts=("p:1",), worker_hosts=workers, num_workers=1, max_workers=16))

    assert compared(of("a:1"), of("a:1", "b:1")) == compared(of("a:1"), of("3=b:1")) == []
    assert len(compared(of("a:1"), of("c:1", "b:1"))) == 1
