"""Tracing is a state of the thread, and Keras 3 on TensorFlow is asked for."""

from __future__ import annotations

import threading

import keras
import pytest

from ps_train.base.errors import ConfigError
from ps_train.modeling.keras.tracing import check_keras, is_tracing, tracing


def test_tracing_is_a_state_of_its_thread_and_ends_with_the_body():
    seen = []
    with tracing():
        thread = threading.Thread(target=lambda: seen.append(is_tracing()))
        thread.start()
        thread.join()
        with tracing():
            pass
        assert is_tracing() and seen == [False]
    with pytest.raises(ValueError, match="lost"), tracing():
        raise ValueError("lost")
    assert not is_tracing()


@pytest.mark.parametrize("value", ["1", "true", "True"])
def test_legacy_keras_is_refused(monkeypatch, value):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", value)
    with pytest.raises(ConfigError, match=f"TF_USE_LEGACY_KERAS={value} .*Keras 3 alone; unset"):
        check_keras()


def test_another_backend_is_refused(monkeypatch):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
    check_keras()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ConfigError, match=r"'jax'.*set KERAS_BACKEND=tensorflow"):
        check_keras()
