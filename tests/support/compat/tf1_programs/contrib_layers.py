"""contrib.layers: normalization of layers, and embeddings of sequences."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers
from tensorflow.contrib.layers import layer_norm
from tensorflow.contrib.layers.python.layers import layer_norm as same_function

from tests.support.compat.tf1_refusals import refused

assert same_function is layer_norm is tf.contrib.layers.layer_norm
random = np.random.RandomState(0)
x = random.normal(size=[2, 3, 4]).astype(np.float32)
normal = layer_norm(tf.constant(x), begin_norm_axis=-1)
whole = layers.layer_norm(tf.constant(x), center=False, scale=False)
named = layers.layer_norm(tf.constant(x), scope="norm", activation_fn=tf.nn.relu, variables_collections=["mine"])
words = layers.embed_sequence([[1, 3], [3, 0]], vocab_size=5, embed_dim=2, scope="words")
same = layers.embed_sequence(tf.constant([[3, 3, 4]]), unique=True, scope="words", reuse=True)
assert [variable.op.name for variable in tf.global_variables()] == [
    "LayerNorm/beta",
    "LayerNorm/gamma",
    "norm/beta",
    "norm/gamma",
    "words/embeddings",
]
assert len(tf.get_collection("mine")) == 2 and same.shape == [1, 3, 2]
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    expected = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    np.testing.assert_allclose(session.run(normal), expected, atol=1e-4)
    all_of_one = (x - x.mean((1, 2), keepdims=True)) / x.std((1, 2), keepdims=True)
    np.testing.assert_allclose(session.run(whole), all_of_one, atol=1e-4)
    np.testing.assert_allclose(session.run(named), np.maximum(all_of_one, 0), atol=1e-4)
    table = session.run(tf.global_variables()[-1])
    np.testing.assert_array_equal(session.run(words), table[[[1, 3], [3, 0]]])
    np.testing.assert_array_equal(session.run(same), table[[[3, 3, 4]]])
assert "give both, or reuse" in refused("layers.embed_sequence([1], vocab_size=3)", layers=layers)
