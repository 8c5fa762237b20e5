"""The job that a RunConfig describes."""

from __future__ import annotations

import types
from typing import Any

import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.compat.capture.estimator_program import CaptureError, SyncReplicas
from ps_train.compat.capture.job_of_config import cluster_job, job_of, task_of
from ps_train.compat.capture.survey import Survey
from ps_train.config.job import Task
from ps_train.config.job_values import NO_LIMIT

CLUSTER = {"ps": ["a:1", "b:1"], "chief": ["c:1"], "worker": ["d:1", "e:1"]}


def config(cluster: Any = CLUSTER, **changes: Any) -> Any:
    usual = {"tf_random_seed": 7, "save_checkpoints_steps": 50, "save_checkpoints_secs": None, "keep_checkpoint_max": 3}
    usual |= {"keep_checkpoint_every_n_hours": 10000}
    usual |= {"save_summary_steps": 10, "job": None, "task_type": "worker", "task_id": 1}
    return types.SimpleNamespace(cluster_spec=tf.train.ClusterSpec(cluster), **{**usual, **changes})


def survey(**changes: Any) -> Survey:
    usual = {
        "looked_up": {},
        "groups": [],
        "partitioned": frozenset(),
        "sync": None,
        "has_hooks": False,
        "has_initial_values": False,
        "variables": None,
    }
    return Survey(**{**usual, **changes})


def test_the_hosts_steps_and_savings_are_those_of_the_config() -> None:
    job = job_of(config(), "/m", 1000, survey())
    assert (job.ps_hosts, job.worker_hosts, job.chief_hosts) == (("a:1", "b:1"), ("d:1", "e:1"), ("c:1",))
    assert (job.max_steps, job.seed, job.save_steps, job.save_secs) == (1000, 7, 50, 0)
    assert (job.keep_checkpoints, job.summary_steps, job.model_dir, job.update) == (3, 10, "/m", "async")
    assert cluster_job(config()).shared_fields()["ps_hosts"] == ["a:1", "b:1"]


@pytest.mark.parametrize(("given", "hours"), [(10000, 0.0), (None, 0.0), (2, 2.0), (0.5, 0.5)])
def test_hours_between_checkpoints_that_stay_are_those_of_the_config(given: float | None, hours: float) -> None:
    assert job_of(config(keep_checkpoint_every_n_hours=given), "/m", 1000, survey()).keep_every_hours == hours


def test_there_is_no_limit_of_steps_or_checkpoints_without_one() -> None:
    job = job_of(config(keep_checkpoint_max=None), "/m", None, survey())
    assert job.max_steps == job.keep_checkpoints == NO_LIMIT


def test_a_master_is_the_chief() -> None:
    job = cluster_job(config({"ps": ["a:1"], "master": ["c:1"]}))
    assert job.chief_hosts == ("c:1",)
    assert task_of(config(task_type="master", task_id=0)) == Task("chief", 0)


def test_hooks_make_each_step_a_call() -> None:
    assert job_of(config(), "/m", 10, survey(has_hooks=True)).longest_call == 1
    assert job_of(config(), "/m", 10, survey()).longest_call > 1


def test_a_sync_optimizer_makes_rounds_with_backup_workers() -> None:
    job = job_of(config(), "/m", 10, survey(sync=SyncReplicas(2, 3)))
    assert (job.update, job.backup_workers) == ("sync", 1)
    with pytest.raises(CaptureError, match="another update"):
        job_of(config(job={"update": "async"}), "/m", 10, survey(sync=SyncReplicas(2, 3)))


def test_further_fields_come_from_the_config_and_wrong_ones_are_named() -> None:
    bounded = job_of(config(job={"update": "bounded", "max_steps_ahead": 3}), "/m", 10, survey())
    assert bounded.steps_ahead_limits == (3, 3)
    for wrong in ("batch_size", "optimiser", "compute_dtype"):
        with pytest.raises(ConfigError, match=rf"{wrong}.* of the RunConfig is not possible: use one"):
            job_of(config(job={wrong: 3}), "/m", 10, survey())


def test_a_number_is_taken_where_the_flag_is_a_text_or_a_number() -> None:
    assert job_of(config(job={"steps_per_run": 4}), "/m", 10, survey()).longest_call == 4
    assert job_of(config(job={"steps_per_run": "auto"}), "/m", 10, survey()).longest_call > 4
    with pytest.raises(ConfigError, match="steps_per_run=0 is not valid"):
        job_of(config(job={"steps_per_run": 0}), "/m", 10, survey())
    with pytest.raises(ConfigError, match="steps_per_run=True is not valid"):
        job_of(config(job={"steps_per_run": True}), "/m", 10, survey())


def test_tasks_wait_longer_for_each_other_than_those_of_a_model() -> None:
    assert cluster_job(config()).startup_timeout_secs == 600
    assert cluster_job(config(job={"startup_timeout_secs": 7.0})).startup_timeout_secs == 7
