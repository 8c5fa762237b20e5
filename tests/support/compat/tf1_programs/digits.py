"""Digits from every module that had read_data_sets, and the tutorial's network, which learns them."""

import numpy as np
import tensorflow as tf
import tensorflow.contrib.learn.python.learn.datasets.mnist as of_learn
from tensorflow.contrib.learn.python.learn.datasets.mnist import read_data_sets
from tensorflow.examples.tutorials.mnist import input_data, mnist

assert read_data_sets is of_learn.read_data_sets is input_data.read_data_sets
assert read_data_sets is tf.contrib.learn.datasets.mnist.read_data_sets
data = read_data_sets("no_such_directory", seed=0)

images, labels = tf.placeholder(tf.float32, [None, mnist.IMAGE_PIXELS]), tf.placeholder(tf.int32, [None])
logits = mnist.inference(images, 32, 16)
loss = mnist.loss(logits, labels)
train_op = mnist.training(loss, 0.1)
correct = mnist.evaluation(logits, labels)
names = [f"{layer}/{part}" for layer in ("hidden1", "hidden2", "softmax_linear") for part in ("weights", "biases")]
assert [variable.op.name for variable in tf.trainable_variables()] == names
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    feeds = dict(zip((images, labels), data.test.next_batch(50), strict=True))
    found, scores, right = session.run([loss, logits, correct], feeds)
    shifted = scores - scores.max(1, keepdims=True)
    probabilities = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    np.testing.assert_allclose(found, -np.log(probabilities[np.arange(50), feeds[labels]]).mean(), rtol=1e-4)
    assert right == (scores.argmax(1) == feeds[labels]).sum()
    for _ in range(300):
        session.run(train_op, dict(zip((images, labels), data.train.next_batch(50), strict=True)))
    assert session.run(tf.train.get_global_step()) == 300
    assert session.run(correct, feeds) > 35
