"""Every test has Keras's own classes back after it, and a `ps_train.keras.fit` that trains by Keras's own."""

from __future__ import annotations

import sys
import types
from typing import Any

import keras
import pytest

from ps_train.compat.distribute import strategy
from ps_train.compat.distribute.replaced import Replaced
from ps_train.modeling.keras.tracing import tracing


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """Gives the replaced methods back."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for owner, name in ((keras.Model, "fit"), (keras.optimizers.Optimizer, "apply")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    strategy.redirect_fit.cache_clear()


@pytest.fixture
def fits(monkeypatch) -> list[dict[str, Any]]:
    """The arguments of the calls of `ps_train.keras.fit`, which trains by Keras's own fit."""
    calls: list[dict[str, Any]] = []

    def fit(model, x=None, y=None, *, epochs=1, verbose="auto", callbacks=None, **rest):
        calls.append({"model": model, "epochs": epochs, **rest})
        keras.Variable(0.0)  # as a fit makes them
        with tracing():
            return model.fit(x, y, epochs=epochs, verbose=verbose, callbacks=callbacks)

    module = types.ModuleType("ps_train.compat.keras.fit")
    module.fit = fit
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return calls


@pytest.fixture
def replaced():
    """Attributes that are given back after the test."""
    found = Replaced()
    yield found
    found.give_back()
