"""The contract of a gradient transform."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

Gradients = dict[str, tf.Tensor]
"""Variable name to gradient, dense and whole."""

Transform = Callable[[Mapping[str, tf.Tensor], Mapping[str, tf.Tensor]], Gradients]
"""Takes gradients and pulled values by variable name; returns the new gradients."""
