"""Arguments of optimizers that are chosen by name: TensorFlow's, with its defaults, and checked."""

from __future__ import annotations

import inspect
import json

import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.cluster.membership.job_diff import diff_configs, job_fingerprint
from ps_train.config import flags
from ps_train.config.error_line import page_of
from ps_train.config.job import Job
from ps_train.config.optimizer_arguments import ADAGRAD_START, ARGUMENTS, OptimizerName, values_of, with_defaults

CLASSES = {
    "sgd": v1.train.GradientDescentOptimizer,
    "momentum": v1.train.MomentumOptimizer,
    "adam": v1.train.AdamOptimizer,
    "adagrad": v1.train.AdagradOptimizer,
    "ftrl": v1.train.FtrlOptimizer,
    "rmsprop": v1.train.RMSPropOptimizer,
    "lazy_adam": v1.train.AdamOptimizer,
    "rowwise_adagrad": v1.train.AdagradOptimizer,
}
OF_NO_UPDATE = {
    *("self", "learning_rate", "use_locking", "name"),
    *("accum_name", "linear_name", "use_own_namescope_for_non_slot_vars"),
}
OURS = {("adagrad", "initial_accumulator_value"), ("rowwise_adagrad", "initial_accumulator_value")}
"""Arguments whose default is not TensorFlow's."""


def refused(**fields) -> str:
    with pytest.raises(ConfigError) as caught:
        Job(**fields)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_argument_of_an_update_can_be_given_and_has_tensorflows_default(name):
    parameters = inspect.signature(CLASSES[name].__init__).parameters
    assert set(ARGUMENTS[name]) == set(parameters) - OF_NO_UPDATE
    for key, argument in ARGUMENTS[name].items():
        default = parameters[key].default
        if default is inspect.Parameter.empty:
            assert (name, key) == ("momentum", "momentum")
        elif (name, key) not in OURS:
            assert argument.default == (default or 0.0), key


def test_adagrad_starts_where_rare_rows_learn():
    assert values_of("adagrad", {}, {}) == values_of("rowwise_adagrad", {}, {})
    assert values_of("adagrad", {}, {}) == {"initial_accumulator_value": ADAGRAD_START}


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("adam", "epsilon=1e-6", {"epsilon": 1e-6}),
        ("momentum", "use_nesterov=True", {"use_nesterov": True}),
        ("momentum", "momentum=0", {"momentum": 0.0}),
        ("rmsprop", "centered=yes", {"centered": True}),
        ("ftrl", "learning_rate_power=-0.6", {"learning_rate_power": -0.6}),
    ],
)
def test_a_given_argument_replaces_the_default(name, text, values):
    job = Job(optimizer=name, optimizer_arg=(text,))
    found = job.optimizer_name("sgd")
    assert found == name
    assert values_of(found, found.given, {}) == {**values_of(name, {}, {}), **values}


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("adam", "momentum=0.9", ["momentum is not an argument of adam", with_defaults("adam")]),
        ("sgd", "momentum=0.9", ["not an argument of sgd", "it takes none"]),
        ("adam", "beta1=1", ["beta1=1 is not valid for adam", "from 0 to below 1", "default is 0.9"]),
        ("adam", "epsilon=small", ["epsilon=small", "above 0", "1e-08"]),
        ("adam", "epsilon=", ["epsilon=''"]),
        ("adam", "epsilon=inf", ["epsilon=inf"]),
        ("adagrad", "initial_accumulator_value=nan", ["initial_accumulator_value=nan", "above 0"]),
        ("adagrad", "initial_accumulator_value=0", ["above 0", "1e-06"]),
        ("momentum", "use_nesterov=2", ["use_nesterov=2", "true or false", "default is false"]),
        ("ftrl", "learning_rate_power=1", ["at most 0"]),
        ("adam", "learning_rate=0.1", ["learning_rate=0.1", "use --learning_rate=0.1"]),
        ("adam", "epsilon", ["optimizer_arg=epsilon", "key=value"]),
    ],
)
def test_what_an_optimizer_does_not_take_is_refused_with_what_it_takes(name, text, parts):
    message = refused(optimizer=name, optimizer_arg=(text,))
    assert [part for part in parts if part not in message] == [], message


def test_the_source_of_an_argument_is_named_also_beside_an_equal_model_argument(tmp_path):
    path = tmp_path / "job.flags"
    path.write_text("--optimizer=adam\n--optimizer_arg=beta1=7\n")
    with pytest.raises(ConfigError, match=r"optimizer_arg beta1=7 \(from .*job.flags:2\)"):
        flags.parse([f"--flagfile={path}", "--model_arg=beta1=7"], {})


def test_arguments_of_file_and_command_line_add_up_and_the_command_line_counts(tmp_path):
    path = tmp_path / "job.flags"
    path.write_text("--optimizer=adam\n--optimizer_arg=beta1=0.5  # slower\n--optimizer_arg=epsilon=1e-4\n")
    parsed = flags.parse(["--optimizer_arg=epsilon=1e-6", f"--flagfile={path}"], {})
    assert parsed.job.optimizer_arguments() == {"beta1": "0.5", "epsilon": "1e-6"}
    again = flags.parse(flags.as_arguments(parsed.given), {})
    assert again.job == parsed.job


@pytest.mark.parametrize("flag", ["optimizer_arg", "outer_optimizer_arg"])
def test_one_flag_takes_several_arguments_with_commas_and_each_has_its_source(flag):
    given = ["--optimizer=momentum", "--local_steps=4", "--update=sync", "--outer_optimizer=nesterov"]
    value = {"optimizer_arg": "use_nesterov=true", "outer_optimizer_arg": "learning_rate=0.5"}[flag]
    parsed = flags.parse([*given, f"--{flag}=momentum=0.8, {value}", f"--{flag}=momentum=0.7"], {})
    assert getattr(parsed.job, flag) == ("momentum=0.8", value, "momentum=0.7")
    assert flags.parse(flags.as_arguments(parsed.given), {}).job == parsed.job
    with pytest.raises(ConfigError, match=rf"^{flag} momentum=2 \(from the command line\)"):
        flags.parse([*given, f"--{flag}={value},momentum=2"], {})
    with pytest.raises(ConfigError, match=rf"^{flag}= .*form key=value"):
        flags.parse([*given, f"--{flag}={value},"], {})


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        (["--optimizer=adam", "--optimizer_arg=epsilon=0"], "models#optimizers"),
        (["--optimizer=sgd", "--optimizer_arg=epsilon=1"], "models#optimizers"),
        (["--local_steps=4", "--outer_optimizer_arg=learning_rate=0"], "local#outer-optimizers"),
    ],
)
def test_the_page_that_helps_is_that_of_the_flag(arguments, page):
    with pytest.raises(ConfigError) as refusal:
        flags.parse(arguments, {})
    assert page_of(refusal.value) == page


def test_every_argument_is_in_the_full_help():
    text = flags.help_text(full=True)
    for name in ARGUMENTS:
        assert f"  {name}: {with_defaults(name) or 'none'}" in text
    assert "--optimizer_arg" in flags.help_text(full=False)


def test_workers_with_other_arguments_differ():
    jobs = [Job(ps_hosts=("a:1",), worker_hosts=("b:1",), optimizer="adam", optimizer_arg=(f"epsilon={value}",))
            for value in ("1e-6", "1e-4")]  # fmt: skip
    mine, theirs = (json.loads(json.dumps(job_fingerprint(job))) for job in jobs)
    (line,) = diff_configs(theirs, mine, "the chief", "worker:1")
    assert line == "optimizer_arg: epsilon=1e-4 at the chief, epsilon=1e-6 at worker:1"


def test_a_name_with_arguments_is_a_text_like_any_other():
    name = OptimizerName("adam", {"epsilon": "1"}, {})
    assert name == "adam" and {"adam": 1}[name] == 1 and f"{name}" == "adam" and not name.is_used
