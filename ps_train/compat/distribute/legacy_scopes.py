"""Models that are made in a strategy's scope and compiled after it, as Keras 2 took them.

    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.evaluate(x, y)

Keras 3 makes such a model's metrics outside of the scope, and then its `evaluate` fails.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
import tensorflow as tf

from ps_train.compat.distribute.replaced import Replaced


def install(replaced: Replaced) -> None:
    """Lets `compile` enter the scope that a model was made in.

    Args:
      replaced: gets the replaced attributes.
    """
    own: Any = keras.Model.compile

    @functools.wraps(own)
    def compile_in_scope(self: Any, *args: Any, **options: Any) -> Any:
        if tf.distribute.has_strategy():
            return own(self, *args, **options)
        with self.distribute_strategy.scope():
            return own(self, *args, **options)

    replaced.attribute(keras.Model, "compile", compile_in_scope)
