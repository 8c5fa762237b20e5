"""The message of hyperparameters has the numbers of TensorFlow 1.15's, so what that stored is read."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.compat.tf1.hparam_messages import HParamDef, message_of, values_of


@pytest.mark.parametrize(
    ("value", "kind", "is_list", "stored"),
    [
        (1, int, False, b"\x08\x01"),
        (0.5, float, False, b"\x15\x00\x00\x00\x3f"),
        ("b", str, False, b"\x1a\x01b"),
        (True, bool, False, b"\x38\x01"),
        ([1, 2], int, True, b"\x22\x04\x0a\x02\x01\x02"),
        ([0.5], float, True, b"\x2a\x06\x0a\x04\x00\x00\x00\x3f"),
        (["b"], str, True, b"\x32\x03\x0a\x01b"),
        ([True], bool, True, b"\x42\x03\x0a\x01\x01"),
    ],
)
def test_a_value_has_the_field_that_it_had(value: Any, kind: type, is_list: bool, stored: bytes) -> None:
    entry = b"\x0a\x01a\x12" + bytes([len(stored)]) + stored
    message = message_of({"a": (value, kind, is_list)})
    assert message.SerializeToString() == b"\x0a" + bytes([len(entry)]) + entry
    assert values_of(HParamDef.FromString(message.SerializeToString())) == {"a": value}


def test_another_value_is_refused() -> None:
    with pytest.raises(ValueError, match="the hyperparameter 'a' of type dict cannot be in a message"):
        message_of({"a": ({}, dict, False)})
