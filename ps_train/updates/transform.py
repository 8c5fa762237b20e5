"""The contract of a gradient transform."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

Gradients = dict[str, tf.Tensor]
"""Map of variable name to whole, dense gradient."""

Transform = Callable[[Mapping[str, tf.Tensor], Mapping[str, tf.Tensor]], Gradients]
"""Function of gradients and pulled values, both by variable name; returns the new gradients."""
