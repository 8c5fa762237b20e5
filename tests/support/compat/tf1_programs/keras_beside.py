"""tf.keras is that of TensorFlow 1, and works beside cells, layers and `import keras`."""

import keras
import numpy as np
import tensorflow as tf
import tensorflow.keras.backend as K
from tensorflow import keras as tf_keras
from tensorflow.keras import layers
from tensorflow.keras.layers import Dense

assert tf_keras is tf.keras and Dense is layers.Dense is tf.keras.layers.Dense
assert tf.keras.__version__.startswith("2.") and keras.__version__.startswith("3.")
assert keras.layers.Dense is not Dense

x = np.random.RandomState(0).normal(size=[2, 3, 4]).astype(np.float32)
recurrent = tf.keras.layers.LSTM(5, return_sequences=True)
outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(5), recurrent(tf.constant(x)), dtype=tf.float32)
summed = K.sum(Dense(1)(outputs))
model = tf.keras.Sequential([Dense(3, input_shape=[4]), layers.Dense(1)])
model.compile(loss="mse", optimizer=tf.keras.optimizers.SGD(0.01))
with tf.Session() as session:
    K.set_session(session)
    session.run(tf.global_variables_initializer())
    assert np.isfinite(session.run(summed))
    first, second = (model.train_on_batch(x[:, 0], np.ones([2, 1])) for _ in range(2))
    assert second < first
