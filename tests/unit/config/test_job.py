"""The values that a Job allows, and its errors."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ps_train.base.errors import EXIT_CONFIG, ConfigError
from ps_train.config.job import Job, Task


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"steps_per_run": 4},
            "steps_per_run=4 is not valid: use a whole number of at least 1, or auto, as the text '4'",
        ),
        ({"towers": 2}, "towers=2 is not valid: use a whole number of at least 1, or all, as the text '2'"),
        ({"seed": "1"}, "seed=1 is not valid: use a whole number"),
        ({"learning_rate": "fast"}, "learning_rate=fast is not valid: use a finite number above 0"),
        ({"model_dir": 3}, "model_dir=3 is not valid: use"),
    ],
)
def test_a_value_of_another_type_is_refused_too(values, text):
    with pytest.raises(ConfigError, match=text):
        Job(**values)


def test_a_path_may_be_a_path_object(tmp_path):
    assert Job(model_dir=tmp_path, data_dir=tmp_path / "data") == Job(
        model_dir=str(tmp_path), data_dir=str(tmp_path / "data")
    )


def test_the_defaults_are_a_valid_job_and_task():
    assert Job().max_steps == 2000
    assert Job().update == "async"
    assert Task() == Task("local", None)


def test_a_job_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Job().max_steps = 5


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("max_steps", 0, "at least 1"),
        ("batch_size", 0, "at least 1"),
        ("batch_size", -3, "at least 1"),
        ("epochs", -1, "at least 0"),
        ("shuffle_buffer", -1, "at least 0"),
        ("seed", -1, "at least 0"),
        ("num_ps", -1, "at least 0"),
        ("num_workers", 0, "at least 1"),
        ("num_workers", 10**7, "at most 60000"),
        ("num_ps", 10**7, "at most 60000"),
        ("accumulate", 10**17, "at most 1000000"),
        ("batch_size", 10**17, "at most 2147483647"),
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", float("nan"), "above 0"),
        ("save_steps", -1, "at least 0"),
        ("save_secs", -0.5, "at least 0"),
        ("save_secs", float("nan"), "at least 0"),
        ("keep_checkpoints", 0, "at least 1"),
        ("startup_timeout_secs", 0.0, "above 0"),
        ("recovery_timeout_secs", 0.0, "above 0"),
        ("finish_timeout_secs", 0.0, "above 0"),
        ("heartbeat_timeout_secs", 0.0, "above 0"),
        ("log_secs", 0.0, "above 0"),
        ("gpus", -2, "at least -1"),
        ("update", "later", "async, bounded, sync"),
        ("optimizer", "lion", "sgd, momentum, adam"),
        ("compute_dtype", "float64", "float32, bfloat16, float16"),
        ("compute_dtype", "half", "float32, bfloat16, float16"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_field_value_and_what_is_allowed(field, value, allowed):
    with pytest.raises(ConfigError) as caught:
        Job(**{field: value})
    assert f"{field}={value}" in str(caught.value)
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"max_steps": 1},
        {"epochs": 0},
        {"shuffle_buffer": 0},
        {"num_ps": None},
        {"num_ps": 1},
        {"optimizer": None},
        {"learning_rate": None},
        {"learning_rate": 1e-9},
        {"gpus": -1},
        {"gpus": 0},
        {"save_steps": 0},
        {"save_secs": 0.0, "save_steps": 1},
    ],
)
def test_a_value_at_the_edge_of_what_is_allowed_is_accepted(values):
    job = Job(**values)
    assert {name: getattr(job, name) for name in values} == values


def test_a_message_names_the_source_of_the_value():
    with pytest.raises(ConfigError, match=r"max_steps=0 \(from flags/x\.flags\)"):
        Job(max_steps=0, sources={"max_steps": "flags/x.flags"})


def test_a_message_names_no_source_where_none_is_known():
    with pytest.raises(ConfigError) as caught:
        Job(max_steps=0, sources={"seed": "TF_CONFIG"})
    assert "from" not in str(caught.value)


def test_a_wrong_configuration_has_the_exit_code_that_says_a_restart_never_helps():
    with pytest.raises(ConfigError) as caught:
        Job(max_steps=0)
    assert caught.value.exit_code == EXIT_CONFIG == 2


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({"update": "async"}, "partial"),
        ({"update": "async", "ps_recovery": "consistent"}, "consistent"),
        ({"update": "bounded"}, "consistent"),
        ({"update": "sync"}, "consistent"),
    ],
)
def test_the_update_mode_decides_how_the_loss_of_a_ps_is_repaired_where_that_is_not_given(fields, mode):
    assert Job(**fields).recovery_mode == mode


def test_model_arguments_are_split_at_the_first_equals_sign():
    assert Job(model_arg=("hidden=64", "path=a=b", "empty=")).model_arguments() == {
        "hidden": "64",
        "path": "a=b",
        "empty": "",
    }


def test_of_a_repeated_model_argument_the_last_one_counts():
    assert Job(model_arg=("hidden=64", "hidden=32")).model_arguments() == {"hidden": "32"}


@pytest.mark.parametrize("text", ["hidden", "=64", "two words=1", "1st=2", ""])
def test_a_model_argument_that_is_not_key_value_is_refused_with_its_source(text):
    with pytest.raises(ConfigError) as caught:
        Job(model_arg=(text,), sources={"model_arg": "the command line"})
    assert f"model_arg={text} (from the command line)" in str(caught.value)
    assert "key=value" in str(caught.value)


def test_shared_fields_survive_json_unchanged():
    job = Job(ps_hosts=("a:1",), worker_hosts=("b:1", "c:1"), model_arg=("x=1",), learning_rate=0.5)
    assert json.loads(json.dumps(job.shared_fields())) == job.shared_fields()


@pytest.mark.parametrize(
    "change",
    [
        {"ps_hosts": ("z:1",)},
        {"worker_hosts": ("z:1",)},
        {"chief_hosts": ("z:1",)},
        {"model": "my.models:Net"},
        {"model_arg": ("hidden=2",)},
        {"optimizer": "adam"},
        {"learning_rate": 0.25},
        {"update": "sync"},
        {"max_steps": 7},
        {"seed": 7},
    ],
)
def test_what_must_be_the_same_in_every_process_is_shared(change):
    (name,) = change
    assert Job(**change).shared_fields()[name] != Job().shared_fields()[name]


@pytest.mark.parametrize(
    "change",
    [
        {"model_dir": "/mine"},
        {"data_dir": "/mine"},
        {"batch_size": 7},
        {"log_secs": 7.0},
        {"verbose": True},
        {"gpus": 0},
        {"towers": "all"},
        {"startup_timeout_secs": 7.0},
    ],
)
def test_what_may_differ_between_processes_is_not_shared(change):
    assert Job(**change).shared_fields() == Job().shared_fields()


def test_the_order_of_model_arguments_does_not_matter_to_what_is_shared():
    assert Job(model_arg=("a=1", "b=2")).shared_fields() == Job(model_arg=("b=2", "a=1")).shared_fields()


def test_where_a_value_came_from_does_not_make_two_jobs_differ():
    assert Job(seed=3, sources={"seed": "TF_CONFIG"}) == Job(seed=3)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.parametrize("name", ["learning_rate", "l2", "clip_norm", "save_secs"])
def test_a_number_that_is_not_finite_is_refused_with_its_source(name, value):
    with pytest.raises(ConfigError, match=rf"^{name}={value} \(from TF_CONFIG\) is not valid: use a finite number "):
        Job(**{name: float(value)}, sources={name: "TF_CONFIG"})


@pytest.mark.parametrize(("dtype", "is_mixed", "scales"), [
    ("float32", False, False), ("bfloat16", True, False), ("float16", True, True)
])  # fmt: skip
def test_float16_scales_the_loss_and_may_skip_a_gradient(dtype, is_mixed, scales):
    job = Job(compute_dtype=dtype)
    assert (job.is_mixed, job.scales_loss, job.may_skip) == (is_mixed, scales, scales)
    assert Job(compute_dtype=dtype, on_nan="skip").may_skip
    assert job.shared_fields()["compute_dtype"] == dtype
