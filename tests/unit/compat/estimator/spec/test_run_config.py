"""RunConfig: defaults, values that are refused, and copies with other values."""

from __future__ import annotations

import copy
import functools
import json
import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.run_config import RunConfig

CLUSTER = {"chief": ["a:1"], "ps": ["b:1", "b:2"], "worker": ["c:1", "c:2", "c:3"]}


@pytest.fixture(autouse=True)
def without_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def config_in(monkeypatch):
    """Returns a function: TF_CONFIG to the RunConfig under it."""

    def make(tf_config, **values):
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        return RunConfig(**values)

    return make


def test_the_defaults_are_stocks():
    config = RunConfig()
    assert (config.model_dir, config.tf_random_seed, config.session_config) == (None, None, None)
    assert (config.save_summary_steps, config.log_step_count_steps) == (100, 100)
    assert (config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours) == (5, 10000)
    assert (config.session_creation_timeout_secs, config.checkpoint_save_graph_def) == (7200, True)
    assert (config.device_fn, config.protocol, config.train_distribute, config.eval_distribute) == (None,) * 4
    assert (config.engine, config.job) == ("auto", None)


def test_values_are_given_by_position_in_stocks_order():
    given = ["/m", 7, 11, None, 12, None, 3, 24, 50, None, None, "grpc", None, None, 5, 60, False]
    config = RunConfig(*given)
    assert (config.model_dir, config.tf_random_seed, config.save_summary_steps) == ("/m", 7, 11)
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (None, 12)
    assert (config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours, config.log_step_count_steps) == (
        3,
        24,
        50,
    )
    assert (config.protocol, config.experimental_max_worker_delay_secs) == ("grpc", 5)
    assert (config.session_creation_timeout_secs, config.checkpoint_save_graph_def) == (60, False)
    with pytest.raises(TypeError):
        RunConfig(*given, "ps_train")


def test_a_path_object_is_a_model_dir(tmp_path):
    assert RunConfig(model_dir=pathlib.Path("/m")).model_dir == "/m"
    assert RunConfig().replace(model_dir=pathlib.Path("/n")).model_dir == "/n"


def test_programs_set_values_of_their_own_and_derive_classes():
    class Own(RunConfig):
        def __init__(self, own, **values):
            self.before = own
            super().__init__(**values)
            self.own = own

        @property
        def save_summary_steps(self):
            return 7

    config = Own(3, model_dir="/m")
    config.later = 4
    changed = config.replace(tf_random_seed=1)
    assert [(each.before, each.own, each.later, each.save_summary_steps) for each in (config, changed)] == [
        (3, 3, 4, 7)
    ] * 2
    assert (type(changed), changed.model_dir, changed.tf_random_seed) == (Own, "/m", 1)
    for each in (config, RunConfig()):
        with pytest.raises(AttributeError, match=r"model_dir of a RunConfig cannot be set: use config\.replace"):
            each.model_dir = "/n"


def test_point_13_the_model_dir_of_tf_config_is_used(config_in):
    assert config_in({"model_dir": "/m"}).model_dir == "/m"
    assert config_in({"model_dir": "/m"}, model_dir="/m").model_dir == "/m"
    assert config_in({}, model_dir="/n").model_dir == "/n"


def test_point_13_two_model_dirs_or_an_empty_one_are_refused(config_in):
    with pytest.raises(ValueError, match="model_dir=/n differs from TF_CONFIG's, /m"):
        config_in({"model_dir": "/m"}, model_dir="/n")
    with pytest.raises(ValueError, match="TF_CONFIG model_dir is empty"):
        config_in({"model_dir": ""})
    with pytest.raises(ValueError, match="model_dir='' is not valid"):
        config_in({}, model_dir="")


@pytest.mark.parametrize(
    ("given", "steps", "secs"),
    [
        ({}, None, 600),
        ({"save_checkpoints_steps": 5}, 5, None),
        ({"save_checkpoints_secs": 5}, None, 5),
        ({"save_checkpoints_steps": None}, None, None),
        ({"save_checkpoints_secs": None}, None, None),
        ({"save_checkpoints_steps": None, "save_checkpoints_secs": None}, None, None),
        ({"save_checkpoints_steps": None, "save_checkpoints_secs": 7}, None, 7),
    ],
)
def test_point_14_checkpoints_are_saved_by_steps_or_by_time(given, steps, secs):
    config = RunConfig(**given)
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (steps, secs)


def test_point_14_both_ways_to_save_are_refused():
    with pytest.raises(ValueError, match="save_checkpoints_steps=1 and save_checkpoints_secs=2 are both given"):
        RunConfig(save_checkpoints_steps=1, save_checkpoints_secs=2)


def test_point_15_replace_returns_a_new_config():
    config = RunConfig(tf_random_seed=1)
    changed = config.replace(tf_random_seed=2, model_dir="/m", engine="tensorflow", job={"update": "sync"})
    assert (config.tf_random_seed, config.model_dir, config.engine) == (1, None, "auto")
    assert (changed.tf_random_seed, changed.model_dir) == (2, "/m")
    assert (changed.engine, changed.job) == ("tensorflow", {"update": "sync"})
    assert changed.replace(model_dir=None, tf_random_seed=None).model_dir is None


@pytest.mark.parametrize("name", ["no_such_name", "task_id", "cluster_spec"])
def test_point_15_replace_refuses_other_names(name):
    with pytest.raises(ValueError, match=f"{name} cannot be replaced: use model_dir"):
        RunConfig().replace(**{name: 1})


def test_point_15_replacing_one_way_to_save_clears_the_other():
    by_steps = RunConfig().replace(save_checkpoints_steps=5)
    assert (by_steps.save_checkpoints_steps, by_steps.save_checkpoints_secs) == (5, None)
    by_secs = by_steps.replace(save_checkpoints_secs=6)
    assert (by_secs.save_checkpoints_steps, by_secs.save_checkpoints_secs) == (None, 6)
    kept = by_secs.replace(save_checkpoints_steps=None)
    assert (kept.save_checkpoints_steps, kept.save_checkpoints_secs) == (None, 6)
    never = by_secs.replace(save_checkpoints_secs=None)
    assert (never.save_checkpoints_steps, never.save_checkpoints_secs) == (None, None)
    with pytest.raises(ValueError, match="both given"):
        by_secs.replace(save_checkpoints_steps=1, save_checkpoints_secs=2)


def test_point_15_a_copy_keeps_the_cluster_of_its_time(config_in, monkeypatch):
    config = config_in({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}})
    monkeypatch.delenv("TF_CONFIG")
    assert config.replace(tf_random_seed=1).task_id == 1
    assert copy.deepcopy(config).master == "grpc://c:2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("keep_checkpoint_max", -1),
        ("keep_checkpoint_every_n_hours", 0),
        ("save_summary_steps", -1),
        ("save_checkpoints_steps", -1),
        ("save_checkpoints_secs", -1),
        ("save_checkpoints_steps", "10"),
        ("log_step_count_steps", 0),
        ("tf_random_seed", 1.5),
        ("tf_random_seed", "1"),
        ("session_config", {}),
        ("session_creation_timeout_secs", 0),
        ("experimental_max_worker_delay_secs", 0.5),
        ("device_fn", "cpu"),
        ("device_fn", lambda: "cpu"),
        ("device_fn", lambda op, other: "cpu"),
        ("engine", "other"),
        ("engine", None),
    ],
)
def test_point_16_values_are_checked(name, value):
    for make in (RunConfig, RunConfig().replace):
        with pytest.raises(ValueError, match=f"{name}=.* is not valid: use "):
            make(**{name: value})


@pytest.mark.parametrize(
    "values",
    [
        {"keep_checkpoint_max": None},
        {"keep_checkpoint_max": 0},
        {"save_summary_steps": 0},
        {"log_step_count_steps": None},
        {"tf_random_seed": np.int64(3)},
        {"session_config": v1.ConfigProto()},
        {"device_fn": lambda op: "/cpu:0"},
        {"device_fn": functools.partial(lambda device, op: device, "/cpu:0")},
        {"experimental_max_worker_delay_secs": 0},
        {"session_creation_timeout_secs": 0.5},
    ],
)
def test_point_16_allowed_values_are_kept(values):
    for config in (RunConfig(**values), RunConfig().replace(**values)):
        assert {name: getattr(config, name) for name in values} == values


@pytest.mark.parametrize(
    ("task", "index", "filters"),
    [
        ("chief", 0, ["/job:ps", "/job:chief"]),
        ("worker", 2, ["/job:ps", "/job:worker/task:2"]),
        ("ps", 0, ["/job:ps", "/job:worker", "/job:chief", "/job:master"]),
    ],
)
def test_point_17_sessions_of_a_cluster_have_device_filters(config_in, task, index, filters):
    session = config_in({"cluster": CLUSTER, "task": {"type": task, "index": index}}).session_config
    assert list(session.device_filters) == filters
    rewriting = session.graph_options.rewrite_options
    assert session.allow_soft_placement and rewriting.meta_optimizer_iterations == rewriting.ONE


def test_point_17_a_session_config_of_the_user_stays(config_in):
    assert RunConfig().session_config is None
    given = v1.ConfigProto()
    config = config_in({"cluster": CLUSTER, "task": {"type": "chief", "index": 0}}, session_config=given)
    assert config.session_config == given
    master = config_in({"cluster": {"master": ["a:1"], "ps": ["b:1"]}, "task": {"type": "master", "index": 0}})
    assert list(master.session_config.device_filters) == ["/job:ps", "/job:master"]


def test_point_18_grpc_is_the_only_protocol():
    assert RunConfig(protocol="grpc").protocol == "grpc"
    with pytest.raises(ValueError, match="protocol='grpc\\+verbs' is not valid: use one of grpc"):
        RunConfig(protocol="grpc+verbs")


@pytest.mark.parametrize("name", ["train_distribute", "eval_distribute", "experimental_distribute"])
def test_strategies_are_refused_in_one_line(name):
    with pytest.raises(ValueError, match=f"{name}=.* cannot be used") as refused:
        RunConfig(**{name: object()})
    assert "\n" not in str(refused.value)


def test_further_flags_are_known_by_name():
    assert RunConfig(job={"update": "sync", "min_workers": 2}).job == {"update": "sync", "min_workers": 2}
    with pytest.raises(ValueError, match="'updat', which is not a flag of ps_train: use update"):
        RunConfig(job={"updat": "sync"})
    with pytest.raises(ValueError, match="'xyzxyz', which is not a flag of ps_train: `python -m ps_train --helpfull`"):
        RunConfig(job={"xyzxyz": 1})
