"""contrib.slim is tf-slim: scopes of arguments, layers, and training against plain sessions."""

import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib import slim as same
from tensorflow.contrib.slim.nets import resnet_v1
from tensorflow.contrib.slim.python.slim.nets import vgg

assert slim.nets.vgg is vgg and slim.nets.resnet_v1 is resnet_v1
assert slim.arg_scope is same.arg_scope is tf.contrib.slim.arg_scope and resnet_v1.resnet_v1_50

images = np.random.RandomState(0).normal(size=[4, 6, 6, 1]).astype(np.float32)
with slim.arg_scope([slim.conv2d, slim.fully_connected], weights_regularizer=slim.l2_regularizer(0.5)):
    maps = slim.conv2d(tf.constant(images), 2, [3, 3], padding="VALID", normalizer_fn=slim.batch_norm, scope="conv")
    flat = slim.flatten(slim.max_pool2d(maps, [2, 2]))
    logits = slim.dropout(slim.fully_connected(flat, 3, activation_fn=None, scope="last"), is_training=False)
names = [variable.op.name for variable in tf.trainable_variables()]
assert names == ["conv/weights", "conv/BatchNorm/beta", "last/weights", "last/biases"]
assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
loss = slim.losses.softmax_cross_entropy(logits, tf.one_hot([0, 1, 2, 0], 3))
train_op = slim.learning.create_train_op(tf.losses.get_total_loss(), tf.train.GradientDescentOptimizer(0.1))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    weights, last = session.run([tf.trainable_variables()[0], tf.trainable_variables()[2]])
    penalty = session.run(tf.losses.get_regularization_loss())
    np.testing.assert_allclose(penalty, 0.25 * ((weights**2).sum() + (last**2).sum()), rtol=1e-4)
    kernels = weights[:, :, 0]
    windows = np.lib.stride_tricks.sliding_window_view(images[..., 0], (3, 3), (1, 2))
    sums = np.einsum("bijrc,rcf->bijf", windows, kernels)
    normal = np.maximum((sums - sums.mean((0, 1, 2))) / np.sqrt(sums.var((0, 1, 2)) + 1e-3), 0)
    np.testing.assert_allclose(session.run(maps), normal, atol=1e-3)
    first = session.run(train_op)
    assert [session.run(train_op) for _ in range(20)][-1] < first
