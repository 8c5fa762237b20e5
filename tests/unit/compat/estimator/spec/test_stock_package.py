"""The models of tensorflow-estimator are imported as a copy, and nothing else in the process changes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import types
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec import stock_package
from ps_train.compat.estimator.spec.stock_package import StockPackage, missing_package

needs_package = pytest.mark.skipif(bool(missing_package()), reason=missing_package())
STAND_INS: dict[str, dict[str, Any]] = {"estimator_export": {"estimator_export": lambda *names: lambda found: found}}


def modules() -> dict[str, types.ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.startswith("tensor")}


@needs_package
def test_a_module_is_a_copy_of_its_own_that_python_does_not_know() -> None:
    import tf_keras  # noqa: F401  # imports further modules of TensorFlow

    before = modules()
    first, second = StockPackage(STAND_INS), StockPackage(STAND_INS)
    keys = first.module("canned.metric_keys")
    assert keys.MetricKeys.LOSS == "loss"
    assert first.module("canned.metric_keys") is keys and second.module("canned.metric_keys") is not keys
    assert {name for name in modules() if name.startswith("tensorflow_estimator")} == set()
    assert {name: sys.modules[name] for name in before} == before and sys.modules["tensorflow"] is tf


@needs_package
def test_it_has_the_keras_of_tf_keras_and_otherwise_this_tensorflow() -> None:
    import tf_keras

    found = stock_package._tensorflow_with_tf_keras()
    top, of_v1 = found["tensorflow"], found["tensorflow.compat.v1"]
    assert top.keras is tf_keras and top.compat.v1 is of_v1 and top.Graph is tf.Graph
    assert of_v1.get_variable is v1.get_variable and of_v1.layers.Dense is not None
    with pytest.raises(AttributeError):
        top.nothing_of_this_name  # noqa: B018


@needs_package
def test_modules_that_a_program_has_in_tensorflows_place_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    facade = types.ModuleType("tensorflow")
    for name in ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1"):
        monkeypatch.setitem(sys.modules, name, facade)
    assert StockPackage(STAND_INS).module("canned.prediction_keys").PredictionKeys.LOGITS == "logits"
    assert sys.modules["tensorflow"] is sys.modules["tensorflow.compat.v1"] is facade


@pytest.mark.parametrize("absent", ["tensorflow_estimator", "tf_keras"])
def test_a_package_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch, absent: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == absent else object())
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.15.0")
    assert missing_package() == f"{absent.replace('_', '-')} is not installed"


def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.13.0")
    assert missing_package() == "tensorflow-estimator 2.13.0 is installed"
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.15.0")
    assert missing_package() == ""
