"""The model of fit as a path that other processes load: a class, an instance or a path."""

from __future__ import annotations

import importlib
import sys
import threading

import pytest

import ps_train
from ps_train.base.errors import ConfigError, ModelError
from ps_train.commands.launch.sent_model import write_model
from ps_train.modeling.load_model import load_model
from tests.support.models.small import Linear


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Writes a model and loads it by its path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(model, arguments=None):
        path = write_model(model, str(tmp_path), arguments or {})
        importlib.invalidate_caches()
        return load_model(path, arguments or {})

    yield load
    sys.modules.pop("ps_train_fit_model", None)


def test_a_path_and_a_class_that_can_be_imported_need_no_module(tmp_path):
    assert write_model("a.b:C", str(tmp_path), {"x": 3}) == "a.b:C"
    assert write_model(Linear, str(tmp_path), {}) == "tests.support.models.small:Linear"
    assert list(tmp_path.iterdir()) == []


def test_a_class_inside_a_function_gets_its_arguments(loaded):
    class Inner(Linear):
        def __init__(self, width: int = 3):
            super().__init__(width=width)

    model = loaded(Inner, {"width": "5"})
    assert (type(model).__name__, model.width) == ("Inner", 5)


def test_an_instance_keeps_its_values_and_its_name(loaded):
    model = loaded(Linear(count=7, width=2))
    assert type(model) is Linear and (model.count, model.width) == (7, 2)


@pytest.mark.parametrize("model", [3, None, b"text", ps_train.Model, dict, ps_train.Model(), Linear.forward])
def test_what_is_not_a_model_is_refused(model, tmp_path):
    with pytest.raises(ModelError, match=r"fit\(\) got .* as its model: use a subclass of ps_train.Model") as caught:
        write_model(model, str(tmp_path), {})
    assert "\n" not in str(caught.value)


def test_arguments_are_for_classes(tmp_path):
    with pytest.raises(ConfigError, match="instance of Linear: give the arguments to its constructor"):
        write_model(Linear(), str(tmp_path), {"width": "3"})


def test_an_instance_that_cannot_be_sent_is_refused_with_the_attribute(tmp_path):
    model = Linear()
    model.lock = threading.Lock()
    with pytest.raises(ModelError, match=r"because of an instance of Linear\.lock"):
        write_model(model, str(tmp_path), {})
