"""Flags that are not possible with a traced Keras model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.modeling.keras.sent_model import TracedKerasModel
from ps_train.modeling.keras.traced_step import trace_step
from ps_train.modeling.load_model import use_flags


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({"rack": "a", "update": "sync"}, "leave the racks out"),
        ({"towers": "2"}, "use more workers"),
        ({"warm_start": "runs/1"}, r"ps_train\.keras\.load"),
        ({"export_dir": "exported"}, r"model\.export"),
    ],
)
def test_a_flag_that_is_not_possible_is_refused_with_advice(fields: dict[str, str], advice: str) -> None:
    model = object.__new__(TracedKerasModel)
    with pytest.raises(ConfigError, match=f"{next(iter(fields))}.*is not possible with TracedKerasModel: .*{advice}"):
        use_flags(model, Job(**fields))


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        (lambda: keras.optimizers.SGD(0.1, use_ema=True), "use_ema=True"),
        (lambda: keras.optimizers.Ftrl(0.1), "its optimizer Ftrl"),
    ],
)
def test_averages_and_values_that_follow_from_slots_need_every_step(optimizer: Callable[[], Any], why: str) -> None:
    network = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    network.compile(optimizer(), "mse")
    batch = tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1]), None
    model = TracedKerasModel(trace_step(network, batch))
    with pytest.raises(ConfigError, match=rf"local_steps=4 is not possible with TracedKerasModel: {why}"):
        use_flags(model, Job(local_steps="4"))
    use_flags(model, Job())
