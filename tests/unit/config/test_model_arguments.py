"""The model's path and its arguments from texts."""

from __future__ import annotations

import inspect

import pytest

from ps_train.base.errors import ModelError
from ps_train.config.model_arguments import convert_arguments, missing_module, split_model_path


def made(hidden: int, rate: float = 0.1, name: str = "a", wide: bool = False, size: int | None = None): ...


def open_ended(**more: int): ...


PARAMETERS = inspect.signature(made).parameters


def converted(**arguments: str):
    return convert_arguments("m:Net", PARAMETERS, arguments, {"rate=x": "flags/a"})


def test_a_path_is_a_module_and_a_class() -> None:
    assert split_model_path("package.module:Net") == ("package.module", "Net")


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("net", "of the form package.module:Class."),
        ("a b:Net", "of the form package.module:Class."),
        ("./src/net.py:Net", "--model=src.net:Net"),
        ("src/net", "--model=src.net:CLASS"),
    ],
)
def test_another_form_is_refused_with_advice(path: str, advice: str) -> None:
    with pytest.raises(ModelError) as caught:
        split_model_path(path)
    assert advice in str(caught.value)


def test_a_missing_module_is_named() -> None:
    assert "there is no module 'nets' (looked in" in str(missing_module("nets:Net", "nets"))
    assert "use the name of the module, --model=net:Net." in str(missing_module("net.py:Net", "net.py"))


def test_texts_get_the_types_of_the_parameters() -> None:
    given = {"hidden": "64", "rate": "1e-3", "name": "12", "wide": "Yes", "size": "3"}
    found = converted(**given)
    assert found == {"hidden": 64, "rate": 0.001, "name": "12", "wide": True, "size": 3}
    assert [type(value) for value in found.values()] == [int, float, str, bool, int]
    assert converted(hidden="1", wide="0")["wide"] is False


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "needs the argument hidden: give it with --model_arg=hidden=VALUE"),
        ({"hidden": "1", "depth": "2"}, "depth is not an argument of m:Net: it takes hidden, rate, name, wide, size"),
        ({"hidden": "1.5"}, "hidden=1.5 is not valid for m:Net: use int: a whole number"),
        ({"hidden": "1", "rate": "x"}, "rate=x (from flags/a) is not valid for m:Net: use float: a number"),
        ({"hidden": "1", "wide": "maybe"}, "wide=maybe is not valid for m:Net: use bool: true or false"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: dict[str, str], text: str) -> None:
    with pytest.raises(ModelError) as caught:
        converted(**arguments)
    assert text in str(caught.value)


def test_a_constructor_with_keywords_takes_any_name() -> None:
    parameters = inspect.signature(open_ended).parameters
    assert convert_arguments("m:Net", parameters, {"depth": "2"}, {}) == {"depth": "2"}
