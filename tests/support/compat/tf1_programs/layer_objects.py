"""Layers as objects: built once, called often, with the variables of the functions of the same kind."""

import numpy as np
import tensorflow as tf
from tensorflow.layers import Dense

from tests.support.compat.tf1_refusals import refused

random = np.random.RandomState(0)
x = random.normal(size=[4, 3]).astype(np.float32)
images = random.normal(size=[2, 6, 6, 1]).astype(np.float32)

layer = Dense(5, activation=tf.nn.relu, kernel_regularizer=tf.contrib.layers.l2_regularizer(0.1), name="hidden")
first, again = layer(x), layer.apply(tf.constant(2 * x))
text = tf.layers.Dense("2")(first)
assert [variable.op.name for variable in tf.trainable_variables()] == [
    "hidden/kernel",
    "hidden/bias",
    "dense/kernel",
    "dense/bias",
]
assert layer.units == 5 and layer.trainable_weights == [layer.kernel, layer.bias]
assert tf.layers.dense(first, 2).op.name.startswith("dense_1/") and issubclass(Dense, tf.layers.Layer)

normal = tf.layers.BatchNormalization(momentum=0.9, name="normal")
normalized = normal(tf.constant(x), training=True)
updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
assert len(updates) == 2
dropped = tf.layers.Dropout(0.5)(tf.ones([1000]), training=True)
kept = tf.layers.Dropout(0.5)(tf.ones([1000]), training=False)
convolution = tf.layers.Conv2D("2", 3, use_bias=False, kernel_initializer=tf.ones_initializer())
maps = convolution(images)
largest = tf.layers.MaxPooling2D(2, 2)(maps)
average = tf.layers.AveragePooling2D(pool_size=2, strides=2)(maps)
flat = tf.layers.Flatten()(largest)
wider = tf.layers.conv2d_transpose(maps, "1", 2, strides=2)
separable = tf.layers.separable_conv2d(images, 3, 2)
others = [tf.layers.Conv1D(2, 2)(tf.zeros([1, 4, 3])), tf.layers.max_pooling1d(tf.zeros([1, 4, 3]), 2, 2)]
deep = tf.layers.Conv3D(2, 2)(tf.zeros([1, 3, 3, 3, 1]))
assert wider.shape == [2, 8, 8, 1] and separable.shape == [2, 5, 5, 3] and deep.shape == [1, 2, 2, 2, 2]
assert [each.shape.as_list() for each in others] == [[1, 3, 2], [1, 2, 3]]


class Scaled(tf.layers.Layer):
    def build(self, shape):
        self.scale = self.add_variable("scale", [shape[-1].value], initializer=tf.constant_initializer(3.0))
        super().build(shape)

    def call(self, inputs):
        return inputs * self.scale


scaled = Scaled(name="scaled")(tf.constant(x))
assert "scaled/scale" in [variable.op.name for variable in tf.global_variables()]

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    kernel, bias = session.run([layer.kernel, layer.bias])
    np.testing.assert_allclose(session.run(first), np.maximum(x @ kernel + bias, 0), atol=1e-5)
    np.testing.assert_allclose(session.run(again), np.maximum(2 * x @ kernel + bias, 0), atol=1e-5)
    np.testing.assert_allclose(session.run(tf.losses.get_regularization_loss()), 0.05 * (kernel**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(session.run(normalized), (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), atol=1e-4)
    session.run(updates)
    mean, variance = session.run([normal.moving_mean, normal.moving_variance])
    np.testing.assert_allclose(mean, 0.1 * x.mean(0), atol=1e-5)
    np.testing.assert_allclose(variance, 0.9 + 0.1 * x.var(0), atol=1e-4)
    ones, zeros = session.run([kept, dropped])
    assert np.all(ones == 1) and set(np.unique(zeros)) == {0, 2} and 400 < (zeros == 0).sum() < 600
    sums = np.lib.stride_tricks.sliding_window_view(images[..., 0], (3, 3), (1, 2)).sum((3, 4))
    windows = sums.reshape(2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4)
    np.testing.assert_allclose(session.run(maps)[..., 1], sums, atol=1e-4)
    np.testing.assert_allclose(session.run(largest)[..., 0], windows.max((3, 4)), atol=1e-4)
    np.testing.assert_allclose(session.run(average)[..., 0], windows.mean((3, 4)), atol=1e-4)
    np.testing.assert_allclose(session.run(flat), session.run(largest).reshape(2, -1))
    np.testing.assert_allclose(session.run(scaled), 3 * x, rtol=1e-5)
assert "tf.layers.Maxout is not in this TensorFlow" in refused("tf.layers.Maxout", tf=tf)
