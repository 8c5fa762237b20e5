"""Combinations of values that a job refuses."""

from __future__ import annotations

import string

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.fields import job_fields
from ps_train.config.job import Job
from ps_train.config.refusals import REFUSALS, help_of, refuse


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"backup_workers": 1}, "backup_workers=1 is for update=sync, but update=async."),
        ({"backup_workers": 1, "update": "bounded"}, "backup_workers=1 is for update=sync, but update=bounded."),
        ({"max_staleness": 3, "update": "sync"}, "max_staleness=3 is not for update=sync."),
        ({"max_staleness": 0, "update": "sync"}, "max_staleness=0 is not for update=sync."),
        ({"divide_lr_by_staleness": True, "update": "sync"}, "divide_lr_by_staleness=True is not for update=sync."),
        ({"ps_recovery": "partial", "update": "bounded"}, "ps_recovery=partial is for update=async, but"),
    ],
)
def test_what_is_not_for_the_update_mode_is_refused(fields, text):
    with pytest.raises(ConfigError) as caught:
        Job(**fields)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_a_job_that_would_never_save_is_refused():
    with pytest.raises(ConfigError, match=r"save_steps=0.*save_secs=0"):
        Job(save_steps=0, save_secs=0.0)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"export": "latest"}, "export=latest has no directory to write to: add --export_dir."),
        ({"export": "best:auc"}, "export=best:auc has no directory to write to: add --export_dir."),
        (
            {"export": "all", "export_dir": "/e"},
            "export=all is not valid: use one of final, latest, best, or best:METRIC",
        ),
        ({"early_stop": "auc"}, "early_stop=auc is not valid: use METRIC:EVALUATIONS, for example auc:3."),
        ({"eval_every_secs": -1.0}, "eval_every_secs=-1.0 is not valid: use a finite number of at least 0."),
    ],
)
def test_flags_of_the_evaluator_are_checked(fields, text):
    with pytest.raises(ConfigError) as caught:
        Job(**fields)
    assert text in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"towers": "0"}, "towers=0 is not valid: use a whole number of at least 1, or all."),
        ({"towers": "many"}, "towers=many is not valid: use a whole number of at least 1, or all."),
        ({"towers": ""}, "towers='' is not valid: use a whole number of at least 1, or all."),
        ({"towers": "5", "batch_size": 4}, "towers=5 is more than batch_size=4: each device needs an example, use at"),
    ],
)
def test_a_worker_has_no_more_devices_than_a_batch_has_examples(fields, text):
    with pytest.raises(ConfigError) as caught:
        Job(**fields)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_only_the_final_model_is_exported_by_the_chief():
    assert Job(export_dir="/e").final_export_dir == "/e" and Job().final_export_dir == ""
    assert Job(export_dir="/e", export="best").final_export_dir == ""


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"sharding": "both"}, "sharding=both is not valid: use one of static, dynamic."),
        ({"shard_examples": 64}, "shard_examples=64 is for sharding=dynamic, but sharding=static."),
        ({"sharding": "dynamic", "shard_examples": 16}, "shard_examples=16 is less than batch_size=32: a batch"),
        (
            {"sharding": "dynamic", "shard_examples": 0},
            "shard_examples=0 is not valid: use a whole number of at least 1.",
        ),
        ({"sharding": "dynamic", "accumulate": 2}, "accumulate=2 is not possible with sharding=dynamic"),
    ],
)
def test_what_is_not_for_the_sharding_is_refused(fields, text):
    with pytest.raises(ConfigError) as caught:
        Job(**fields)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"update": "async"}, "rack=a is for update=sync, but update=async."),
        ({"backup_workers": 1}, "backup_workers=1 is not possible with rack=a: a rack pushes the sum"),
        ({"max_workers": 4}, "max_workers=4 is not possible with rack=a: the racks of all workers must be known"),
        ({"push_codec": "int8"}, "push_codec=int8 is not possible with rack=a: the sums of a rack"),
        ({"pull_codec": "int8"}, "pull_codec=int8 is not possible with rack=a: values are passed on"),
        ({"compute_dtype": "bfloat16"}, "compute_dtype=bfloat16 is not possible with rack=a: values are passed on"),
        ({"sharding": "dynamic"}, "sharding=dynamic is not possible with rack=a: the ps note the examples"),
        ({"batch_size": "8..32"}, "batch_size=8..32 is not possible with rack=a: a rack's push takes"),
        ({"steps_per_run": "4"}, "steps_per_run=4 is not possible with rack=a: a rack's workers meet in every step"),
        ({"rack": "a b"}, "rack=a b is not valid: use letters, digits, '.', '_' and '-', at most 63."),
        ({"rack": "", "ps_placement": "near"}, "ps_placement=near needs the racks of the ps: add --rack_file."),
    ],
)
def test_what_is_not_possible_with_racks_is_refused_with_the_reason(fields, text):
    with pytest.raises(ConfigError) as caught:
        Job(**{"rack": "a", "update": "sync", **fields})
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_the_steps_of_racks_are_calls_of_their_own():
    assert Job(rack="a", update="sync").longest_call == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"ps_hosts": ("a:1",), "ps_on_workers": True}, "ps_hosts=a:1 is not possible with ps_on_workers=True"),
        ({"num_ps": 2, "ps_on_workers": True}, "num_ps=2 is not possible with ps_on_workers=True"),
        ({"num_ps": 0, "ps_hosts": ("a:1",)}, "ps_hosts=a:1 is not possible with num_ps=0"),
        (
            {"max_workers": 4, "ps_on_workers": True},
            "max_workers=4 is not possible with ps_on_workers=True: each worker",
        ),
    ],
)
def test_ps_of_their_own_and_workers_that_leave_are_refused_where_the_workers_hold_the_variables(fields, text):
    with pytest.raises(ConfigError) as caught:
        Job(**fields)
    assert text in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row.text[:40])
def test_each_row_names_flags_that_there_are(row):
    names = {name for _, name, _, _ in string.Formatter().parse(row.text) if name}
    flags = {field.name for field in job_fields(Job)}
    assert names - flags <= {row.found, "racks", "ps_here", "local", "min_batch_size"}


def test_what_was_found_later_is_refused_by_the_same_table():
    job = Job(accumulate=2)
    refuse(job, tables=())
    with pytest.raises(ConfigError, match=r"accumulate=2 is not possible with tables \(a, b, c\): use accumulate=1"):
        refuse(job, tables=["a", "b", "c", "d"])


def test_the_help_of_a_flag_begins_with_what_it_is_for():
    helps = {field.name: help_of(field) for field in job_fields(Job)}
    assert helps["max_staleness"] == "async, bounded: drop gradients with a larger staleness."
    assert helps["seed"].startswith("Seed of")


def test_no_ps_means_that_the_workers_hold_the_variables():
    assert Job(num_ps=0).ps_on_workers and not Job(num_ps=1).ps_on_workers
