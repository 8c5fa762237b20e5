"""Variables that a model assigns itself: moving averages, counters, what it remembers from one step to the next."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.python.training import moving_averages

from tests.support.models.zoo.shape import WIDTH, Shape, dense, kept, plain_network

UPDATES = v1.GraphKeys.UPDATE_OPS
LOCAL = v1.GraphKeys.LOCAL_VARIABLES


def averages():
    mean = v1.get_variable("mean", [WIDTH], initializer=v1.zeros_initializer(), trainable=False)
    return mean, v1.get_variable("variance", [WIDTH], initializer=v1.ones_initializer(), trainable=False)


def normalized(x, mean, variance):
    scale = v1.get_variable("scale", [WIDTH], initializer=v1.ones_initializer())
    return dense(tf.nn.batch_normalization(x, mean, variance, None, scale, 1e-3), 1)


def batch_norm(x):
    mean, variance = averages()
    now = tf.nn.moments(x, [0])
    v1.add_to_collection(UPDATES, v1.assign_sub(mean, 0.1 * (mean - now[0])))
    v1.add_to_collection(UPDATES, v1.assign_sub(variance, 0.1 * (variance - now[1])))
    return normalized(x, *now)


def batch_norm_of_ops(x):
    mean, variance = averages()
    now = tf.nn.moments(x, [0])
    v1.add_to_collection(UPDATES, v1.assign(mean, mean * 0.9 + now[0] * 0.1).op)
    v1.add_to_collection(UPDATES, variance.assign(variance * 0.9 + now[1] * 0.1).op)
    return normalized(x, *now)


def batch_norm_of_tensorflow(x):
    mean, variance = averages()
    now = tf.nn.moments(x, [0])
    for average, value in zip((mean, variance), now, strict=True):
        update = moving_averages.assign_moving_average(average, value, 0.9, zero_debias=False)
        v1.add_to_collection(UPDATES, update)
    return normalized(x, *now)


def batch_norm_that_is_debiased(x):
    mean, _ = averages()
    update = moving_averages.assign_moving_average(mean, tf.reduce_mean(x, 0), 0.9, zero_debias=True)
    v1.add_to_collection(UPDATES, update)
    return dense(x, 1)


def fused_batch_norm(x):
    image = tf.reshape(x, [-1, 1, 2, 3])
    mean = v1.get_variable("mean", [3], initializer=v1.zeros_initializer(), trainable=False)
    variance = v1.get_variable("variance", [3], initializer=v1.ones_initializer(), trainable=False)
    scale, offset = v1.get_variable("scale", [3]), v1.get_variable("offset", [3])
    image, now, spread = v1.nn.fused_batch_norm(image, scale, offset, is_training=True)
    v1.add_to_collection(UPDATES, mean.assign_sub(0.1 * (mean - now)))
    v1.add_to_collection(UPDATES, variance.assign_sub(0.1 * (variance - spread)))
    return dense(tf.reshape(image, [-1, 6]), 1)


def exponential_moving_average(x):
    """Of a tensor of the batch; the variable is the average's own."""
    average = v1.train.ExponentialMovingAverage(0.9, zero_debias=False)
    loudness = tf.reduce_mean(tf.abs(x), 0)
    update = average.apply([loudness])
    with tf.control_dependencies([update]):
        return dense(x / (0.1 + average.average(loudness).read_value()), 1)


def average_of_weights(x):
    """The averages that serve are those of the trained variables, and of one that the model assigns."""
    outputs = dense(x, 1)
    count = kept("count", 0.0)
    with tf.control_dependencies([count.assign_add(1.0)]):
        outputs += 0.01 * count.read_value()
    average = v1.train.ExponentialMovingAverage(0.9, num_updates=v1.train.get_global_step())
    with tf.control_dependencies([outputs]):
        v1.add_to_collection(UPDATES, average.apply([*v1.trainable_variables(), count]))
    return outputs


def counter(x):
    count = kept("count", 0, tf.int64)
    with tf.control_dependencies([count.assign_add(1)]):
        return dense(x, 1) * tf.cast(count.read_value(), tf.float32) / 10.0


def examples_counted(x):
    """Fixes nothing: the count is for others to read."""
    count = kept("count", 0, tf.int64)
    v1.add_to_collection(UPDATES, v1.assign_add(count, tf.shape(x, tf.int64)[0]))
    return dense(x, 1)


def running_maximum(x):
    largest = v1.get_variable("largest", [WIDTH], initializer=v1.constant_initializer(float("-inf")), trainable=False)
    now = tf.maximum(largest.read_value(), tf.reduce_max(x, 0))
    with tf.control_dependencies([largest.assign(now)]):
        return dense(x / (1.0 + tf.abs(now)), 1)


def words_and_flags(x):
    """The sign of the batch before this one, as a word and as a flag."""
    word = v1.get_variable("word", initializer=lambda: tf.constant("none"), dtype=tf.string, trainable=False)
    flag = kept("flag", False, tf.bool)
    before, was = word.read_value(), flag.read_value()
    known = tf.cast(tf.strings.length(before), tf.float32)
    is_large = tf.reduce_sum(x) > 0
    with tf.control_dependencies([before, was]):
        updates = [word.assign(tf.where(is_large, "plus", "a minus")), flag.assign(is_large)]
    with tf.control_dependencies(updates):
        return dense(x, 1) * tf.where(was, 1.0, 0.5) + known * 0.01


def assigned_in_a_branch(x):
    """How often the batch was on the one side, and on the other."""
    above, below = kept("above", 0.0), kept("below", 0.0)
    found = tf.cond(tf.reduce_sum(x) > 0, lambda: above.assign_add(1.0), lambda: below.assign_add(1.0))
    with tf.control_dependencies([found]):
        return dense(x, 1) + 0.01 * (above.read_value() - below.read_value())


def assigned_in_a_loop(x):
    total = kept("total", 0.0)

    def body(number):
        with tf.control_dependencies([total.assign_add(0.01 * x[number, 0])]):
            return number + 1

    (done,) = tf.nest.flatten(tf.while_loop(lambda number: number < 3, body, [0], parallel_iterations=1))
    with tf.control_dependencies([done]):
        return dense(x, 1) + total.read_value()


def assigned_in_a_function(x):
    total = kept("total", 0.0)

    @tf.function
    def remembered(values):
        total.assign_add(0.01 * tf.reduce_sum(values))
        return total.read_value()

    return dense(x, 1) + remembered(x)


def rows_assigned(x):
    """Scatters into a memory of what was seen last in each place."""
    memory = v1.get_variable("memory", [8, 2], initializer=v1.zeros_initializer(), trainable=False)
    place = tf.cast(tf.abs(x[0, 0]) * 3, tf.int32) % 8
    seen = tf.gather(memory, [place])
    with tf.control_dependencies([seen]):
        update = v1.scatter_update(memory, [place], x[:1, :2])
    with tf.control_dependencies([update]):
        again = v1.scatter_add(memory, [place, place], 0.1 * x[:2, 2:4])
    with tf.control_dependencies([again]):
        return dense(tf.concat([x, tf.tile(seen, [tf.shape(x)[0], 1])], 1), 1)


def local_counter(x):
    """Each worker's own, of a local variable."""
    count = v1.get_variable("calls", [], tf.float32, v1.zeros_initializer(), trainable=False, collections=[LOCAL])
    with tf.control_dependencies([count.assign_add(1.0)]):
        return dense(x, 1) + count.read_value() * 0.01


def unused_and_without_gradients(x):
    v1.get_variable("unused", [3])
    v1.get_variable("number", [2], tf.int32)
    blocked = v1.get_variable("blocked", [WIDTH, 1])
    fixed = v1.get_variable("fixed", [WIDTH, 1], trainable=False)
    return dense(x, 1) + x @ tf.stop_gradient(blocked) + x @ fixed


def state_in_the_loss(outputs, labels):
    """Errors are measured by what they were."""
    usual = kept("usual", 1.0)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    scaled = loss / (0.1 + usual.read_value())
    with tf.control_dependencies([scaled]):
        v1.add_to_collection(UPDATES, usual.assign(0.9 * usual + 0.1 * tf.stop_gradient(loss)))
    return scaled


BOTH = [assigned_in_a_branch, assigned_in_a_loop, counter]
SHAPES = [
    *[Shape(one) for one in (batch_norm, batch_norm_of_ops, batch_norm_of_tensorflow, fused_batch_norm)],
    Shape(batch_norm_that_is_debiased),
    Shape(exponential_moving_average),
    Shape(average_of_weights),
    Shape(average_of_weights, control_flow=1, name="average_of_weights_v1"),
    *[Shape(one) for one in BOTH],
    *[Shape(one, control_flow=1, name=f"{one.__name__}_v1") for one in BOTH],
    Shape(examples_counted),
    Shape(running_maximum),
    Shape(words_and_flags),
    Shape(assigned_in_a_function),
    Shape(rows_assigned),
    Shape(local_counter, joined=True),
    Shape(unused_and_without_gradients, joined=True),
    Shape(plain_network, loss=state_in_the_loss, name="state_in_the_loss"),
]
