"""Kernels of TensorFlow that stand in for rules on whole variables, where they compute the same and faster.

    kernel = kernel_for(optimizer, rule)        # None: the rule's own operations are used
    done = kernel.apply(variable, slots, gradient, kernel.shared(rate, iterations))

A rule reads and writes the variable once for each of its operations; a kernel does all of them in one pass.  The
candidates come from the optimizer's public arguments, and a trial with random values decides.  It is enough, because
only rules that add and multiply are tried, and that of Adam itself: two such rules that agree there are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.keras.kernel import AdamKernel, DescentKernel, Kernel
from ps_train.modeling.keras.update_rules import Rule

_TOLERANCE, _OF_VELOCITY = 1e-6, 3e-5
"""Relative to the largest value of a variable or slot; for Adam's second moment, of which a step is the root."""

_SUMS_AND_PRODUCTS = {"Placeholder", "Const", "Cast", "AddV2", "Sub", "Mul", "Neg"}

_OF_ADAM = _SUMS_AND_PRODUCTS | {"Square", "Sqrt", "RealDiv", "Pow"}
"""Without what limits or selects, whose effect a trial may not reach."""

_MOST_RATE = 0.01
"""The largest rate of Adam with which the steps of its kernel are Keras's to 1e-6, also where a training goes on."""

_ROWS, _UPDATES, _RATE = 12, 4, 0.01


def kernel_for(optimizer: Any, rule: Rule) -> Kernel | None:
    """Returns a kernel that computes the same as a rule of a Keras optimizer; None if none is known."""
    import keras

    slots = tuple(slot.name for slot in rule.slots)
    kernel: Kernel | None = None
    if type(optimizer) is keras.optimizers.Adam:
        rate = optimizer.learning_rate  # a tensor if it is a schedule
        is_small = isinstance(rate, keras.Variable) and float(rate) <= _MOST_RATE
        if is_small and slots == ("momentum", "velocity") and _operations(rule) <= _OF_ADAM:
            kernel = AdamKernel(float(optimizer.beta_1), float(optimizer.beta_2), float(optimizer.epsilon))
    elif _adds_and_multiplies(rule):
        momentum, nesterov = getattr(optimizer, "momentum", None), bool(getattr(optimizer, "nesterov", False))
        candidates = {(): DescentKernel(False), ("momentum",): DescentKernel(True, float(momentum or 0.0), nesterov)}
        kernel = candidates.get(slots)
    return kernel if kernel and _is_equal(kernel, rule) else None


def _adds_and_multiplies(rule: Rule) -> bool:
    return _operations(rule) <= _SUMS_AND_PRODUCTS and "iterations" not in rule.inputs


def _operations(rule: Rule) -> set[str]:
    return {str(node.op) for node in v1.GraphDef.FromString(rule.graph).node}


def _is_equal(kernel: Kernel, rule: Rule) -> bool:
    """Tells by some updates of random values whether a kernel computes the same as a rule."""
    random = np.random.RandomState(2)
    shape = [_ROWS, *rule.shape[1:]] if rule.shape else []
    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(device_count={"GPU": 0})) as session:
        gradient, iterations = v1.placeholder(tf.float32, shape), v1.placeholder(tf.int64, [])
        rate, start = tf.constant(_RATE), random.randn(*shape)
        slots = {slot.name: np.resize(slot.value, shape) for slot in rule.slots}
        own, new = ({name: _variable(value) for name, value in {"": start, **slots}.items()} for _ in range(2))
        given = {"variable": own[""], **{f"slot_{index}": own[slot.name] for index, slot in enumerate(rule.slots)}}
        inputs = {name: one.read_value() for name, one in given.items()}
        try:
            found = rule.compute({"gradient": gradient, "rate": rate, "iterations": iterations, **inputs})
        except ValueError:  # it has the variable's shape as a constant, or another dtype
            return False
        with tf.control_dependencies(list(found.values())):
            by_rule = [given[name].assign(value, read_value=False) for name, value in found.items()]
        by_kernel = kernel.apply(new[""], new, gradient, kernel.shared(rate, iterations))
        session.run(v1.global_variables_initializer())
        for update in range(_UPDATES):
            feeds = {gradient: random.randn(*shape) * 3.0**update, iterations: update}
            try:
                session.run([by_rule, by_kernel], feeds)
            except tf.errors.InvalidArgumentError:
                return False
        values, right = session.run([new, own])
    return all(
        np.allclose(values[name], value, rtol=0, atol=_tolerance(name) * np.abs(value).max(initial=0.0))
        for name, value in right.items()
    )


def _tolerance(name: str) -> float:
    return _OF_VELOCITY if name == "velocity" else _TOLERANCE


def _variable(value: Any) -> Any:
    return v1.Variable(np.asarray(value, np.float32), use_resource=True)
