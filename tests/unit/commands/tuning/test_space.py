"""The grammar of --space: what a text means, and the one line for what it cannot mean."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.tuning.space import Choices, Range, flag_of, parse_space


class Middle:
    """A trial of Optuna that chooses the largest values, and remembers the calls."""

    def __init__(self):
        self.calls, self.params = [], {}

    def suggest_float(self, name, low, high, *, step=None, log=False):
        self.calls.append(("float", name, low, high, step, log))
        return self.params.setdefault(name, high)

    def suggest_int(self, name, low, high, *, step=1, log=False):
        self.calls.append(("int", name, low, high, step, log))
        return self.params.setdefault(name, high)

    def suggest_categorical(self, name, choices):
        self.calls.append(("categorical", name, *choices))
        return self.params.setdefault(name, choices[-1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate:1e-4..1e-1:log", Range("learning_rate", 1e-4, 0.1, is_log=True)),
        ("learning_rate=0..1", Range("learning_rate", 0.0, 1.0)),
        ("learning_rate=.1...9:.2", Range("learning_rate", 0.1, 0.9, step=0.2)),
        ("learning_rate:0..1:0.3", Range("learning_rate", 0.0, 0.9, step=0.3)),
        ("batch_size:16,32", Choices("batch_size", (16, 32))),
        ("model_arg.hidden:16..64", Range("model_arg.hidden", 16, 64, is_whole=True)),
        ("model_arg.hidden:16..60:16", Range("model_arg.hidden", 16, 48, is_whole=True, step=16)),
        ("model_arg.hidden:1..1024:log", Range("model_arg.hidden", 1, 1024, is_whole=True, is_log=True)),
        ("model_arg.hidden:1e1..1e2:int", Range("model_arg.hidden", 10, 100, is_whole=True)),
        ("model_arg.rate:-1.5..2", Range("model_arg.rate", -1.5, 2.0)),
        ("optimizer:adam,adagrad", Choices("optimizer", ("adam", "adagrad"))),
        ("optimizer_arg.epsilon=1e-8,1e-6", Choices("optimizer_arg.epsilon", (1e-8, 1e-6))),
        ("model_arg.deep=true,false", Choices("model_arg.deep", (True, False))),
        ("model:a:B,c.d:E", Choices("model", ("a:B", "c.d:E"))),
        ("model_arg.code=007,08", Choices("model_arg.code", ("007", "08"))),
        ('model_arg.widths="64,32",128', Choices("model_arg.widths", ("64,32", 128))),
        ('model_arg.text:"a""b","1..2"', Choices("model_arg.text", ('a"b', "1..2"))),
    ],
)
def test_a_text_is_a_range_or_choices(text, expected):
    assert parse_space([text]).parameters == (expected,)


def test_an_argument_that_is_a_float_has_no_range_of_whole_numbers():
    texts = ["model_arg.a:0..1", "model_arg.b:0..1", "model_arg.c:0..1:int"]
    found = parse_space(texts, fractions=["model_arg.a", "model_arg.c"]).parameters
    assert [parameter.is_whole for parameter in found] == [False, True, True]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], "--space is not given"),
        (["learning_rat:0..1"], "there is no flag 'learning_rat': did you mean learning_rate"),
        (["hidden:1,2"], "there is no flag 'hidden'"),
        (["model_arg:1,2"], "model_arg needs the name of the argument: use model_arg.NAME"),
        (["learning_rate.x:1,2"], "there is no flag 'learning_rate.x'"),
        (["model_dir:a,b"], "model_dir cannot be tuned"),
        (["seed:1..5"], "seed cannot be tuned"),
        (["learning_rate:1..1"], "the range is empty"),
        (["learning_rate:2..1"], "the range is reversed"),
        (["learning_rate:0..1:log"], "a logarithmic range begins above 0"),
        (["learning_rate:0.1..1:log:0.1"], "a logarithmic range has no step"),
        (["learning_rate:0..1:lug"], "lug is not an option of a range: did you mean log?"),
        (["learning_rate:0..1:2"], "the step 2 is not from 0 to 1"),
        (["learning_rate:0..1:-0.1"], "the step -0.1 is not from 0 to 1"),
        (["learning_rate:a..b"], "a..b is not a range of numbers"),
        (["learning_rate:1e999..2e999"], "an end of the range is not a finite number"),
        (["model_arg.hidden:1..1" + 5000 * "0"], "an end of the range is not a finite number"),
        (["model_arg.hidden:0.5..4:int"], "the ends of a range of whole numbers are not whole"),
        (["optimizer:adam"], "has nothing to choose"),
        (["optimizer:"], "has nothing to choose"),
        (["optimizer:adam,,sgd"], "has nothing to choose"),
        (["optimizer:adam,sgd,adam"], "has a value twice"),
        (["model_arg.x:1,true"], "has a value twice"),
        (['model_arg.x:"64,32'], "has an open quote"),
        (["export_dir:a,b"], "export_dir cannot be tuned"),
        (["optimizer:adam,sgd", "optimizer=sgd,adam"], "optimizer is in the space already"),
        (["learning rate:1,2"], "is not understood"),
        ([""], "is not understood"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(texts, expected):
    with pytest.raises(ConfigError) as caught:
        parse_space(texts)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_a_trial_is_asked_for_each_parameter():
    space = parse_space(["learning_rate:1e-4..1e-1:log", "model_arg.hidden:8..32:8", "optimizer:adam,sgd"])
    trial = Middle()
    assert space.suggest(trial) == {"learning_rate": 0.1, "model_arg.hidden": 32, "optimizer": "sgd"}
    assert trial.calls == [
        ("float", "learning_rate", 1e-4, 0.1, None, True),
        ("int", "model_arg.hidden", 8, 32, 8, False),
        ("categorical", "optimizer", "adam", "sgd"),
    ]


def test_a_function_chooses_under_conditions():
    def layers(trial):
        for layer in range(trial.suggest_int("model_arg.layers", 1, 2)):
            trial.suggest_int(f"model_arg.width_{layer}", 8, 64)

    space = parse_space(["learning_rate:0..1", "layers"])
    assert space.functions == ("layers",)
    values = space.suggest(Middle(), [layers])
    assert list(values) == ["learning_rate", "model_arg.layers", "model_arg.width_0", "model_arg.width_1"]
    assert space.suggest(Middle(), [lambda trial: {"model_arg.x": 2 ** trial.suggest_int("power", 1, 3)}]) == {
        "learning_rate": 1.0,
        "model_arg.x": 8,
    }


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda trial: 3, "returned 3: return a dict"),
        (lambda trial: {"hiden": 3}, "there is no flag 'hiden'"),
        (lambda trial: trial.suggest_int("hiden", 1, 2) and None, "there is no flag 'hiden'"),
    ],
)
def test_a_function_that_chooses_no_flags_is_refused(function, expected):
    with pytest.raises(ConfigError, match=expected):
        parse_space(["space"]).suggest(Middle(), [function])


def test_a_grid_has_the_values_of_each_parameter():
    space = parse_space(["learning_rate:0.1..0.5:0.1", "batch_size:1,2", "model_arg.n:3..5", "model_arg.b=true,false"])
    assert space.points() == {
        "learning_rate": [0.1, 0.2, 0.3, 0.4, 0.5],
        "batch_size": [1, 2],
        "model_arg.n": [3, 4, 5],
        "model_arg.b": [True, False],
    }
    with pytest.raises(ConfigError, match=r"learning_rate has a range without a step.*learning_rate:0.0..1.0:STEP"):
        parse_space(["learning_rate:0..1"]).points()
    with pytest.raises(ConfigError, match="a grid has no conditions"):
        parse_space(["space"]).points()


@pytest.mark.parametrize(
    ("name", "value", "flag"),
    [
        ("learning_rate", 0.00001, "--learning_rate=1e-05"),
        ("model_arg.hidden", 32, "--model_arg=hidden=32"),
        ("model_arg.deep", True, "--model_arg=deep=true"),
        ("optimizer", "adam", "--optimizer=adam"),
    ],
)
def test_a_value_is_a_flag(name, value, flag):
    assert flag_of(name, value) == flag
