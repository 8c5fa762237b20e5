"""Hyperparameters: attributes that keep their types, read from texts, dicts and JSON."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from ps_train.compat.tf1.contrib_hparams import HParams, parse_values
from ps_train.compat.tf1.hparam_messages import HParamDef


def made():
    return HParams(rate=0.1, units=[64, 32], name="a", deep=True, steps=10)


def test_hyperparameters_are_attributes():
    found = HParams(rate=0.1)
    found.add_hparam("units", 3)
    assert found.values() == {"rate": 0.1, "units": 3} and "units" in found and "x" not in found
    assert (found.rate, found.get("units"), found.get("x", 5)) == (0.1, 3, 5)
    found.rate = 0.2
    assert copy.deepcopy(found).values() == {"rate": 0.2, "units": 3}
    found.del_hparam("rate")
    assert found.values() == {"units": 3} and repr(found) == "HParams([('units', 3)])"


def test_a_default_has_the_type_of_the_hyperparameter():
    found = made()
    assert (found.get("rate", 1), found.get("units", [1]), found.get("name", "b"), found.get("x", [])) == (
        0.1,
        [64, 32],
        "a",
        [],
    )
    for name, default in (("steps", "text"), ("steps", 1.5), ("units", 3), ("rate", [0.1]), ("units", ["a"])):
        with pytest.raises(ValueError, match=f"the hyperparameter '{name}'|for the hyperparameter '{name}'"):
            found.get(name, default)


def test_a_message_has_them_all():
    given = HParams(rate=0.5, units=[64, 32], name="ä", deep=True, steps=2**40, flags=[True, False], names=["a", "b"],
                    rates=[0.5])  # fmt: skip
    stored = given.to_proto().SerializeToString()
    message = HParamDef.FromString(stored)
    assert message.hparam["steps"].int64_value == 2**40 and message.hparam["names"].bytes_list.value == [b"a", b"b"]
    assert HParams(hparam_def=message, more=1).values() == {**given.values(), "more": 1}
    assert HParams.from_proto(message).values() == given.values()
    # 1.15 wrote this for HParams(a=1): field 1, a map whose value has the int64 in its field 1.
    assert HParams(a=1).to_proto().SerializeToString() == b"\n\x07\n\x01a\x12\x02\x08\x01"
    with pytest.raises(ValueError, match="'call' of type function cannot be in a message"):
        HParams(call=lambda: 1).to_proto()


def test_a_text_sets_them():
    found = made().parse("rate=1e-3, units=[8, 4,2],name=b c,deep=false,steps=7")
    assert found.values() == {"rate": 1e-3, "units": [8, 4, 2], "name": "b c", "deep": False, "steps": 7}
    assert found.parse("units[1]=5,rate=2").values()["units"] == [8, 5, 2] and found.rate == 2.0
    assert found.parse("").steps == 7


def test_dicts_and_json_set_them():
    found = made().override_from_dict({"rate": 1, "steps": np.int64(3)})
    assert (found.rate, type(found.rate), found.steps) == (1.0, float, 3)
    again = made().parse_json(found.to_json())
    assert again.values() == found.values() == json.loads(found.to_json(sort_keys=True))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rates=1", "'rates' is not a hyperparameter: use one of deep, name, rate, steps, units"),
        ("rate=x", "'x' for the hyperparameter 'rate' is not of the type float"),
        ("deep=2", "is not of the type bool"),
        ("steps=1.5", "'1.5' for the hyperparameter 'steps' is not of the type int"),
        ("rate=1,rate=2", "is twice in"),
        ("rate=[1]", "is not a list"),
        ("units=1", "is a list"),
        ("rate", "is not name=value"),
        ("units[0]=[1]", "assigns a list to one value"),
    ],
)
def test_a_wrong_text_is_refused(text, says):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        made().parse(text)
    assert says in str(error.value)


@pytest.mark.parametrize("values", [{"steps": 1.5}, {"steps": True}, {"deep": 1}, {"name": 3}, {"units": [1.5]}])
def test_a_value_of_another_type_is_refused(values):
    with pytest.raises(ValueError, match="is not of the type"):
        made().override_from_dict(values)


def test_names_that_cannot_be_are_refused():
    with pytest.raises(KeyError, match="not a hyperparameter"):
        made().set_hparam("x", 1)
    with pytest.raises(ValueError, match="another name"):
        made().add_hparam("values", 1)
    with pytest.raises(ValueError, match="empty list"):
        HParams(units=[])


def test_unknown_names_are_left_out_where_they_may():
    assert parse_values("a=1,b[2]=3,c=x,b[0]=4", {"a": int, "b": int}, ignore_unknown=True) == {
        "a": 1,
        "b": {2: 3, 0: 4},
    }
