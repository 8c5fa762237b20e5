"""A library with a head of its own, and optimizers that users name."""

import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.estimator.canned import dnn, linear
from tensorflow.python.estimator.canned.head import _Head
from tensorflow.python.estimator.canned.linear import LinearClassifier
from tensorflow.python.estimator.canned.optimizers import get_optimizer_instance
from tensorflow.python.estimator.inputs.inputs import numpy_input_fn

from tests.support.compat.tf1_refusals import refused

column = tf.feature_column.numeric_column("x", [2])
with tf.Graph().as_default():  # names that became public later
    features = {"x": tf.ones([5, 2])}
    deep = dnn._dnn_logit_fn_builder(3, [4], [column], tf.nn.relu, None, None)(features, mode="train")
    assert deep.shape == linear._linear_logit_fn_builder(3, [column])(features).shape == [5, 3]

X = np.random.RandomState(0).normal(size=[64, 2]).astype(np.float32)
Y = X @ np.array([[1], [2]], np.float32)


class Head(_Head):
    """Squared losses."""

    name = "squares"
    logits_dimension = 1

    def create_loss(self, features, mode, logits, labels):
        return tf.losses.mean_squared_error(labels, logits)

    def create_estimator_spec(self, features, mode, logits, labels=None, train_op_fn=None):
        loss = self.create_loss(features, mode, logits, labels)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op_fn(loss))


def model_fn(features, labels, mode):
    logits = tf.get_variable("bias", [1]) + tf.matmul(features["x"], tf.get_variable("w", [2, 1]))
    optimizer = get_optimizer_instance("SGD", 0.2)
    assert isinstance(optimizer, tf.train.GradientDescentOptimizer)
    return Head().create_estimator_spec(
        features, mode, logits, labels, lambda loss: optimizer.minimize(loss, tf.train.get_global_step())
    )


config = tf.estimator.RunConfig(tempfile.mkdtemp(), tf_random_seed=1)
estimator = tf.estimator.Estimator(model_fn, config=config)
estimator.train(numpy_input_fn({"x": X}, Y, batch_size=16, num_epochs=None, shuffle=False), steps=60)
np.testing.assert_allclose(estimator.get_variable_value("w"), [[1], [2]], atol=0.01)
assert LinearClassifier is tf.estimator.LinearClassifier and issubclass(LinearClassifier, tf.estimator.Estimator)
assert "use tf.train.AdamOptimizer" in refused(
    "get(tf.keras.optimizers.Adam(), 0.1)", get=get_optimizer_instance, tf=tf
)
