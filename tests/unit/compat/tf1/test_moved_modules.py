"""Lost names that private modules find in public ones, and modules under their new names."""

from __future__ import annotations

import os
import sys
import types

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import moved_modules
from ps_train.compat.tf1.contrib import names_of
from ps_train.compat.tf1.moved_modules import MovedModules, _is_below, _lost_name, estimator_export, get_variables_path


def test_a_lost_name_is_that_of_a_public_module() -> None:
    homes = names_of(v1.nn, v1)
    assert _lost_name("tensorflow.python.ops.nn_ops", homes, "relu") is v1.nn.relu
    assert _lost_name("tensorflow.python.ops.array_ops", homes, "where") is v1.where
    for name in ("no_such_name", "_private"):
        with pytest.raises(AttributeError, match=rf"module 'a\.b' has no attribute '{name}'"):
            _lost_name("a.b", homes, name)


def test_only_private_modules_of_these_packages_look_there(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, outer, own = (types.ModuleType(name) for name in ("t.python.ops.x", "t.python.eager.x", "t.python.ops.y"))
    own.__getattr__ = lambda name: "its own"  # type: ignore[method-assign]
    for module in (inner, outer, own):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    moved_modules._find_lost_names("t.")
    assert inner.stack is v1.stack and own.stack == "its own"
    with pytest.raises(AttributeError):
        _ = outer.stack


def test_modules_are_found_by_their_old_names_and_others_are_not() -> None:
    finder = MovedModules("tensorflow")
    made = finder.find_spec("tensorflow.python.distribute.estimator_training", None)
    assert made is not None
    module = finder.create_module(made)
    assert module.should_run_distribute_coordinator("a config") is False
    moved = finder.find_spec("tensorflow.python.training.training_ops", None)
    assert moved is not None
    found = finder.create_module(moved)
    assert callable(found.resource_apply_gradient_descent)
    for name in ("tensorflow.python.ops.array_ops", "numpy", "other.python.training.training_ops"):
        assert finder.find_spec(name, None) is None


def test_a_module_that_is_nowhere_is_refused_in_one_line() -> None:
    absent = moved_modules._AbsentModules("tensorflow.")
    assert absent.find_spec("numpy.nowhere", None) is None
    with pytest.raises(ImportError) as caught:
        absent.find_spec("tensorflow.python.nowhere", None)
    assert "tf.python.nowhere is not in this TensorFlow" in str(caught.value) and "\n" not in str(caught.value)


def test_small_functions_do_what_they_did() -> None:
    assert estimator_export("a", v1=["b"])(print) is print
    assert get_variables_path(b"export/1") == os.path.join("export/1", "variables", "variables")
    assert _is_below("a.b", "a") and _is_below("a", "a") and not _is_below("ab", "a")
