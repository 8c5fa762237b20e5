"""Replaced attributes are found by every way of naming them, and are given back."""

from __future__ import annotations

import importlib
import sys

import keras
import pytest
import tensorflow as tf

from ps_train.compat.distribute.replaced import Replaced


class Owner:
    present = 1


def test_attributes_are_given_back():
    replaced = Replaced()
    for name in ("present", "absent", "present"):
        replaced.attribute(Owner, name, 2)
    assert (Owner.present, Owner.absent) == (2, 2)
    replaced.give_back()
    assert Owner.present == 1 and not hasattr(Owner, "absent")


def test_a_name_is_in_every_copy_of_keras(replaced):
    replaced.keras_name("losses.Old", 7)
    assert keras.losses.Old == tf.keras.losses.Old == importlib.import_module("tensorflow.keras.losses").Old == 7


def test_a_module_is_imported_by_every_name(replaced):
    replaced.keras_module("utils.old", {"value": 7}, lambda name: "write new")
    replaced.keras_module("utils.old.inner", {"value": 8}, lambda name: "write new")
    for name in ("keras.utils.old", "tensorflow.keras.utils.old"):
        assert importlib.import_module(name).value == 7
        assert importlib.import_module(f"{name}.inner").value == 8
    assert tf.keras.utils.old.inner.value == 8
    with pytest.raises(AttributeError, match=r"^tf.keras.utils.old.absent is not in Keras 3, .*: write new\.$"):
        _ = keras.utils.old.absent
    replaced.give_back()
    assert not hasattr(keras.utils, "old") and "keras.utils.old" not in sys.modules
