"""Descriptions of a job's values."""

from __future__ import annotations

from ps_train.config.job import Job
from ps_train.config.job_values import described


def test_a_field_is_described_with_value_and_source():
    job = Job(worker_hosts=("a:1", "b:1"), sources={"worker_hosts": "TF_CONFIG"})
    assert described(job, "worker_hosts") == "worker_hosts=a:1,b:1 (from TF_CONFIG)"
    assert described(job, "seed") == "seed=1"
