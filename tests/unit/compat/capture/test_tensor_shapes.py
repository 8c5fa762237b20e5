"""The form of tensor shapes is that of the engine or of the program."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.tensor_shapes import are_of_numbers, in_form_of_now, tensor_shapes


def size() -> object:
    return tf.TensorShape([7])[0]


def test_a_function_of_an_old_program_gets_sizes_with_a_value() -> None:
    new = in_form_of_now(size)
    with tensor_shapes(of_numbers=False):
        old = in_form_of_now(size)
        with tensor_shapes(of_numbers=True):
            assert old().value == 7 and new() == 7 and are_of_numbers()
        assert isinstance(size(), v1.Dimension)
    assert are_of_numbers() and new is size
