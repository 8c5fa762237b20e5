"""The functions of `tf.contrib.layers` that programs for clusters use.

weights = tf.get_variable("w", [3, 4], initializer=xavier_initializer(), regularizer=l2_regularizer(1e-4))

Each function takes the arguments of contrib's, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import legacy
from ps_train.compat.tf1.contrib_optimize_loss import optimize_loss
from ps_train.compat.tf1.legacy import as_size

__all__ = [
    "batch_norm",
    "dropout",
    "embed_sequence",
    "flatten",
    "fully_connected",
    "l1_regularizer",
    "l2_regularizer",
    "layer_norm",
    "optimize_loss",
    "variance_scaling_initializer",
    "xavier_initializer",
]


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
    """Returns a function from a variable to scale * sum(squares) / 2; to None for a scale of 0.

    Args:
      scale: at least 0.
      scope: of the operations.

    Raises:
      ValueError: the scale is not such a number.
    """
    return _regularizer(scale, scope, "l2_regularizer", tf.nn.l2_loss)


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
    """Returns a function from a variable to scale * sum(magnitudes); the rest is as of `l2_regularizer`."""
    return _regularizer(scale, scope, "l1_regularizer", lambda weights: tf.reduce_sum(tf.abs(weights)))


def _regularizer(scale: float, scope: str | None, name: str, penalty: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if isinstance(scale, bool | int):
        raise ValueError(f"scale={scale!r} of {name} is not a float: write {float(scale)!r}")
    if scale < 0:
        raise ValueError(f"scale={scale!r} of {name} is negative: use 0.0 or more")
    if scale == 0:
        return lambda weights: None

    def regularize(weights: Any) -> Any:
        with v1.name_scope(scope, name, [weights]) as inner:
            return tf.multiply(tf.constant(scale, weights.dtype.base_dtype), penalty(weights), name=inner)

    return regularize


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32) -> Any:
    """Returns an initializer with which gradients keep their size (Glorot and Bengio, 2010).

    Args:
      uniform: a uniform distribution in +-sqrt(6 / (inputs + outputs)), or a truncated normal one.
      seed: of the distribution.
      dtype: of the values.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Any:
    """Returns an initializer with which values keep their size (He et al., 2015).

    Args:
      factor: of the variance, which is factor / n.
      mode: n is the number of inputs for `FAN_IN`, that of outputs for `FAN_OUT`, and their mean for `FAN_AVG`.
      uniform: a uniform distribution in +-sqrt(3 * factor / n), or a truncated normal one.
      seed: of the distribution.
      dtype: of the values.

    Raises:
      ValueError: the mode is not known.
    """
    if mode not in _MODES:
        raise ValueError(f"mode={mode!r} of variance_scaling_initializer is unknown: use one of {', '.join(_MODES)}")
    if uniform:
        return v1.variance_scaling_initializer(factor, mode.lower(), "uniform", seed, dtype)
    # contrib has the deviation sqrt(1.3 * factor / n) before the cut, and this class sqrt(scale / n) / _CUT.
    return v1.variance_scaling_initializer(1.3 * factor * _CUT**2, mode.lower(), "truncated_normal", seed, dtype)


_MODES = ("FAN_IN", "FAN_OUT", "FAN_AVG")
_CUT = 0.87962566103423978
"""Standard deviation of a standard normal number within two deviations, as TensorFlow has it."""

_XAVIER, _ZEROS = xavier_initializer(), v1.zeros_initializer()


def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = _XAVIER,
    weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """Returns activation(inputs @ weights + biases), ReLU by default; a normalizer takes the place of the biases.

    Variables: fully_connected/weights [n, num_outputs], fully_connected/biases [num_outputs].
    """
    inputs = tf.convert_to_tensor(inputs)

    def variable(name: str, shape: list[int], initializer: Any, regularizer: Any) -> Any:
        collections = [v1.GraphKeys.GLOBAL_VARIABLES, *_names(variables_collections, name)]
        return v1.get_variable(
            name, shape, inputs.dtype, initializer, regularizer, trainable=trainable, collections=collections
        )

    with v1.variable_scope(scope, "fully_connected", [inputs], reuse=reuse):
        shape = [inputs.shape.as_list()[-1], as_size(num_outputs, "num_outputs of fully_connected")]
        weights = variable("weights", shape, weights_initializer, weights_regularizer)
        if len(inputs.shape) == 2:
            outputs = tf.matmul(inputs, weights)
        else:
            outputs = tf.tensordot(inputs, weights, [[len(inputs.shape) - 1], [0]])
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **(normalizer_params or {}))
        elif biases_initializer is not None:
            biases = variable("biases", shape[1:], biases_initializer, biases_regularizer)
            outputs = tf.nn.bias_add(outputs, biases)
        outputs = outputs if activation_fn is None else activation_fn(outputs)
        return _collected(outputs, outputs_collections)


def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Any = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: Any = v1.GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
) -> Any:
    """Returns normalized inputs; the updates of the averages are in `updates_collections`, or made at once for None.

    Variables: BatchNorm/{beta, gamma, moving_mean, moving_variance}; gamma only with `scale`.

    Raises:
      ValueError: `batch_weights` or `zero_debias_moving_mean` is given.
    """
    unsupported = {"batch_weights": batch_weights, "zero_debias_moving_mean": zero_debias_moving_mean}
    for option, value in unsupported.items():
        if value is not None and value is not False:
            raise ValueError(f"{option} of batch_norm is not supported: leave it out")
    options = {f"{name}_initializer": value for name, value in (param_initializers or {}).items()}
    options |= {f"{name}_regularizer": value for name, value in (param_regularizers or {}).items()}
    graph = v1.get_default_graph()
    before = graph.get_collection(v1.GraphKeys.UPDATE_OPS)
    with v1.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as inner:
        outputs = legacy.name("layers", "batch_normalization")(
            inputs,
            axis=1 if data_format == "NCHW" else -1,
            momentum=decay,
            epsilon=epsilon,
            center=center,
            scale=scale,
            training=is_training,
            trainable=trainable,
            fused=fused,
            name=inner,
            **options,
        )
    updates = graph.get_collection(v1.GraphKeys.UPDATE_OPS)[len(before) :]
    if updates_collections != v1.GraphKeys.UPDATE_OPS:
        del graph.get_collection_ref(v1.GraphKeys.UPDATE_OPS)[len(before) :]
        for collection in _names(updates_collections, ""):
            for update in updates:
                v1.add_to_collection(collection, update)
        if updates_collections is None:
            with tf.control_dependencies(updates):
                outputs = tf.identity(outputs)
    outputs = outputs if activation_fn is None else activation_fn(outputs)
    return _collected(outputs, outputs_collections)


def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Any:
    """Returns inputs [batch, ...] as [batch, n].

    Args:
      inputs: a tensor.
      outputs_collections: that the outputs join.
      scope: of the operations.
    """
    return _collected(legacy.name("layers", "flatten")(inputs, scope), outputs_collections)


def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: str | None = None,
    seed: int | None = None,
) -> Any:
    """Returns inputs of which a part is zero in training, and the others are 1 / keep_prob times as large.

    Args:
      inputs: a tensor.
      keep_prob: the part that is not zero.
      noise_shape: the shape of the random mask; None: of the inputs.
      is_training: a bool or a tensor of one; False returns the inputs.
      outputs_collections: that the outputs join.
      scope: of the operations.
      seed: of the mask.
    """
    outputs = legacy.name("layers", "dropout")(inputs, 1 - keep_prob, noise_shape, seed, is_training, scope)
    return _collected(outputs, outputs_collections)


def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """Returns the inputs of each example with mean 0 and variance 1, times gamma, plus beta (Ba et al., 2016).

    Variables: LayerNorm/{beta, gamma}, of the shape of the inputs from `begin_params_axis` on.

    Raises:
      ValueError: an axis is not one of the inputs, or the shape of the variables is unknown.
    """
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.rank
    if rank is None:
        raise ValueError("the rank of the inputs of layer_norm is unknown: set their shape")
    for name, axis in (("begin_norm_axis", begin_norm_axis), ("begin_params_axis", begin_params_axis)):
        if not -rank <= axis < rank:
            raise ValueError(f"{name}={axis} of layer_norm is not an axis of inputs {inputs.shape}")
    shape = inputs.shape[begin_params_axis:]
    if not shape.is_fully_defined():
        raise ValueError(f"the shape {shape} of the variables of layer_norm is not known in {inputs.shape}: set it")

    def variable(name: str, initializer: Any) -> Any:
        collections = [v1.GraphKeys.GLOBAL_VARIABLES, *_names(variables_collections, name)]
        return v1.get_variable(name, shape, inputs.dtype, initializer, trainable=trainable, collections=collections)

    with v1.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        beta = variable("beta", _ZEROS) if center else None
        gamma = variable("gamma", v1.ones_initializer()) if scale else None
        mean, variance = tf.nn.moments(inputs, list(range(begin_norm_axis % rank, rank)), keepdims=True)
        epsilon = 1e-3 if inputs.dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        outputs = outputs if activation_fn is None else activation_fn(outputs)
        return _collected(outputs, outputs_collections)


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """Returns the embedding of each id, float [..., embed_dim], for ids of any shape.

    Variables: EmbedSequence/embeddings [vocab_size, embed_dim].

    Args:
      ids: int32 or int64.
      vocab_size: the number of embeddings; may be left out with `reuse`.
      embed_dim: the size of one; may be left out with `reuse`.
      unique: whether each id is looked up once.
      initializer: of the variable.
      regularizer: of the variable.
      trainable: whether it is trained.
      scope: the variable scope.
      reuse: whether the variable is there already.

    Raises:
      ValueError: a size is missing.
    """
    if not reuse and not (vocab_size and embed_dim):
        raise ValueError(f"vocab_size={vocab_size} and embed_dim={embed_dim} of embed_sequence: give both, or reuse")
    with v1.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = (
            [as_size(vocab_size, "vocab_size"), as_size(embed_dim, "embed_dim")] if vocab_size and embed_dim else None
        )
        embeddings = v1.get_variable(
            "embeddings", shape, initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        if not unique:
            return v1.nn.embedding_lookup(embeddings, ids)
        ids = tf.convert_to_tensor(ids)
        found, positions = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(v1.nn.embedding_lookup(embeddings, found), positions)
        outputs = tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0))
        outputs.set_shape([*ids.shape, rows.shape[-1]])
        return outputs


def _names(collections: Any, variable: str) -> list[str]:
    """Returns collections given as a name, as a list, or as a map from variables to lists."""
    if isinstance(collections, Mapping):
        collections = collections.get(variable)
    if collections is None:
        return []
    return [collections] if isinstance(collections, str) else list(collections)


def _collected(outputs: Any, collections: Any) -> Any:
    for name in _names(collections, ""):
        v1.add_to_collection(name, outputs)
    return outputs
