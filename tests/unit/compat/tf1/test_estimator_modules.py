"""Modules of Estimators without the package tensorflow-estimator."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import pytest

from ps_train import estimator
from ps_train.compat.estimator import canned
from ps_train.compat.tf1 import estimator_modules
from ps_train.compat.tf1.estimator_modules import EstimatorModules

ROOT = "classic"


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A finder of modules below `classic.python.estimator`, and no tensorflow-estimator."""
    monkeypatch.setattr(estimator_modules, "package_locations", list)
    monkeypatch.setattr(canned, "missing_package", lambda: "tensorflow-estimator is not installed")
    yield from _with_finder(monkeypatch)


@pytest.fixture
def with_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same finder, and the package."""
    yield from _with_finder(monkeypatch)


def _with_finder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "meta_path", [EstimatorModules(ROOT, lambda: estimator), *sys.meta_path])
    for name in (ROOT, f"{ROOT}.python"):
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
        sys.modules[name].__path__ = []
    yield
    for name in [name for name in sys.modules if name.startswith(f"{ROOT}.")]:
        del sys.modules[name]


def test_modules_of_ps_train_need_no_package(without_package: None) -> None:
    training = importlib.import_module(f"{ROOT}.python.estimator.training")
    assert training.TrainSpec is estimator.TrainSpec
    assert importlib.import_module(f"{ROOT}.python.estimator.estimator").Estimator is estimator.Estimator
    with pytest.raises(AttributeError, match=r"training\.no_such_name is not in this TensorFlow"):
        _ = training.no_such_name


@pytest.mark.parametrize("name", ["gc", "canned.head", "no_such_module"])
def test_other_modules_say_which_package_to_install(without_package: None, name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[estimator\]'") as raised:
        importlib.import_module(f"{ROOT}.python.estimator.{name}")
    assert "\n" not in str(raised.value) and "tensorflow-estimator is not installed" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text"), [("keras_lib", "build the layers in a model_fn"), ("keras", "build the layers in a model_fn")]
)
def test_what_ps_train_does_not_do_is_refused(without_package: None, name: str, text: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=text):
        importlib.import_module(f"{ROOT}.python.estimator.{name}")


def test_estimator_lib_has_the_names_of_tf_estimator(with_package: None) -> None:
    library = importlib.import_module(f"{ROOT}.python.estimator.estimator_lib")
    for name in ("DNNClassifier", "LinearRegressor", "Estimator", "StopAtStepHook", "experimental", "inputs"):
        assert getattr(library, name) is getattr(estimator, name) and name in dir(library)
    with pytest.raises(AttributeError, match="InMemoryEvaluatorHook is not there, since it evaluates in the process"):
        _ = library.InMemoryEvaluatorHook


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("canned.kmeans", "KMeansClustering"),
        ("canned.linear", "LinearSDCA"),
        ("canned.rnn", "RNNClassifier"),
        ("canned.saved_model_estimator", "SavedModelEstimator"),
        ("export.export", "build_raw_supervised_input_receiver_fn"),
        ("hooks.hooks", "InMemoryEvaluatorHook"),
    ],
)
def test_a_refused_name_is_imported_and_says_why_when_it_is_used(with_package: None, module: str, name: str) -> None:
    found = getattr(importlib.import_module(f"{ROOT}.python.estimator.{module}"), name)
    assert found.__name__ == name or not isinstance(found, type)
    with pytest.raises(ValueError, match=r"is not there, since .*: .*\.$"):
        found(None)
