"""What travels beside the gradients of a table's rows, under names of its own.

    beside_name(SLOTS, "ads/part_0")

Each is one number for each row, or several.

    TOUCHED     above 0 for the rows that the step has used: no optimizer may change the others.  It is a row mask
    USES        how many steps have used the row, where a push stands for several
    SLOTS       what several steps have added to the row's slots, which are sums
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

TOUCHED, USES, SLOTS = "touched", "uses", "slots"


def beside_name(kind: str, name: str) -> str:
    """Returns the name of what travels beside a variable's gradient, or a slice's."""
    return f"{kind}:{name}"


def is_beside(name: str) -> bool:
    """Returns whether a name is one of those."""
    return name.startswith((f"{TOUCHED}:", f"{USES}:", f"{SLOTS}:"))


def with_slots(gradients: Mapping[str, Any]) -> dict[str, Any]:
    """Returns gradients in which each row that has slots is followed by them: IndexedSlices [n, row and slots]."""
    found = {name: gradient for name, gradient in gradients.items() if not name.startswith(f"{SLOTS}:")}
    for name, gradient in gradients.items():
        slots = gradients.get(beside_name(SLOTS, name))
        if slots is not None:
            found[name] = tf.IndexedSlices(tf.concat([*map(flat_rows, (gradient.values, slots))], 1), gradient.indices)
    return found


def flat_rows(values: tf.Tensor) -> tf.Tensor:
    """Returns values [n, …] as [n, columns], for any number of rows, even none."""
    return tf.reshape(values, tf.stack([tf.shape(values)[0], values.shape[1:].num_elements()]))
