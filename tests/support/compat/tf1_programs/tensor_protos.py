"""Requests of TensorFlow Serving are made by contrib.util."""

import numpy as np
import tensorflow as tf
import tensorflow.contrib.util as util
from tensorflow.contrib.util import make_tensor_proto

x = np.arange(6, dtype=np.float32).reshape(2, 3)
proto = make_tensor_proto(x, shape=[2, 3])
assert util is tf.contrib.util and tf.contrib.util.make_tensor_proto is make_tensor_proto
assert proto.dtype == tf.float32.as_datatype_enum and [size.size for size in proto.tensor_shape.dim] == [2, 3]
np.testing.assert_array_equal(util.make_ndarray(proto), x)
assert util.make_ndarray(make_tensor_proto([b"a", b"bc"])).tolist() == [b"a", b"bc"]
assert util.constant_value(tf.constant(6)) == 6 and util.constant_value(tf.placeholder(tf.int32)) is None
assert tf.contrib.framework.is_tensor(tf.zeros([1])) and tf.contrib.framework.sort is tf.sort
assert tf.contrib.framework.init_from_checkpoint is tf.train.init_from_checkpoint
