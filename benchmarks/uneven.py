"""Digits on workers that differ in speed: each step pauses between pull and push, as long as an environment variable of
the worker's process says.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ps_train.models.digits import Digits

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

PAUSE_VARIABLE = "BENCHMARK_PAUSE_MS"


class UnevenDigits(Digits):
    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        import tensorflow as tf

        outputs = super().forward(features, training)
        pause = float(os.environ.get(PAUSE_VARIABLE, "0")) / 1000
        if not training or not pause:
            return outputs

        def wait(values: np.ndarray) -> np.ndarray:
            time.sleep(pause)
            return values[:1, :1]

        # The outputs need the pulled values, so the pause begins after the pull and ends before the push.
        return outputs + 0.0 * tf.stop_gradient(tf.reshape(tf.numpy_function(wait, [outputs], tf.float32), [1, 1]))
