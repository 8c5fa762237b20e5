"""A library whose layers are of TensorFlow's own Keras, and which imports modules that have moved."""

import os

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import distribution_strategy_context, estimator_training
from tensorflow.python.keras import activations, initializers, regularizers
from tensorflow.python.keras.engine.base_layer import Layer as BaseLayer
from tensorflow.python.keras.layers import BatchNormalization, Dense, Layer
from tensorflow.python.ops import variable_scope
from tensorflow.python.ops.resource_variable_ops import _from_proto_fn
from tensorflow.python.saved_model.utils_impl import get_variables_path
from tensorflow.python.training import training_ops
from tensorflow.python.util import nest
from tensorflow.python.util.tf_export import estimator_export, tf_export

assert Layer is BaseLayer is tf.keras.layers.Layer and Dense is tf.keras.layers.Dense
assert not estimator_training.should_run_distribute_coordinator(tf.estimator.RunConfig())
assert distribution_strategy_context.has_strategy() is False and callable(tf_export)


@estimator_export("estimator.Twice")
class Twice(Layer):
    """A layer of two others."""

    def build(self, shape):
        self.dense = Dense(3, activations.get("relu"), kernel_initializer=initializers.Constant(0.5))
        self.scale = self.add_weight("scale", [3], initializer="ones", regularizer=regularizers.get("l2"))
        super().build(shape)

    def call(self, inputs):
        return self.dense(inputs) * self.scale


x = np.array([[1, 2], [-3, 1]], np.float32)
outputs = BatchNormalization()(Twice()(tf.constant(x)), training=False)
weights = tf.get_variable("weights", initializer=[1.0, 2.0], use_resource=False)
assert nest.is_sequence([1]) and not nest.is_sequence(1) and nest.flatten([1, [2]]) == [1, 2]
local = variable_scope.variable(3, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="local_step")
assert local in tf.local_variables() and local not in tf.global_variables()
applied = training_ops.apply_gradient_descent(weights, 0.5, [2.0, 2.0])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    found = session.run(outputs)
    np.testing.assert_allclose(found, [[1.5] * 3, [0] * 3] / np.sqrt(1 + 1e-3), rtol=1e-6)
    np.testing.assert_array_equal(session.run(applied), [0, 1])

assert get_variables_path("export") == os.path.join("export", "variables", "variables")
for use_resource in (True, False):
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("w", initializer=[1.0, 2.0], use_resource=use_resource)
        session.run(variable.initializer)
        for described in (_from_proto_fn, tf.Variable.from_proto):
            same = described(variable.to_proto())
            assert same.name == variable.name and type(same) is type(variable)
            np.testing.assert_array_equal(session.run(same), [1, 2])
