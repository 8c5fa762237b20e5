"""Dtypes of which the installed TensorFlow restores slices."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf

from ps_train.engine.run_directory.checkpoint_contents import SLICED_DTYPES

DTYPES = [
    *[tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128, tf.bool, tf.string],
    *[tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64],
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensorflow_restores_other_slices_than_it_saved_of_exactly_these_dtypes(
    dtype: tf.DType, tmp_path: pathlib.Path
) -> None:
    value = tf.constant(["a", "b", "", "c"]) if dtype == tf.string else tf.cast([1, 1, 0, 1], dtype)
    prefix = str(tmp_path / "saved")
    parts = tf.split(value, 2)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["v", "v"], shape_and_slices=["4 0,2", "4 2,2"], tensors=parts)

    def restored(spec: str) -> tf.Tensor:
        return tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["v"], shape_and_slices=[spec], dtypes=[dtype])[0]

    if dtype in SLICED_DTYPES:
        assert bool(tf.reduce_all(tf.equal(restored("4 1,2"), value[1:3])))
        assert bool(tf.reduce_all(tf.equal(restored(""), value)))
    else:
        for spec in ("4 1,2", ""):
            with pytest.raises(tf.errors.InvalidArgumentError):
                restored(spec)
