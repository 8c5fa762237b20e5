"""Sequences of contrib: `feature_column.sequence_input_layer`, and `layers.embed_sequence`.

inputs, lengths = sequence_input_layer(features, columns)       # the input of a recurrent network
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import feature_cache, shared_sequence, shared_sequence_cache
from ps_train.compat.tf1.legacy import as_size

_SCOPE = "sequence_input_layer"


class _Weights:
    """The state of a column: its variables, in the scope of the column.

    Args:
      trainable: False if the layer's variables are not trained.
    """

    def __init__(self, trainable: bool) -> None:
        self._trainable, self._made = trainable, dict[str, Any]()

    def create_variable(
        self, column: Any, name: str, shape: Any, dtype: Any, trainable: bool, initializer: Any, **options: Any
    ) -> Any:
        """Makes a variable of a column, as the column asks for it."""
        self._made[name] = v1.get_variable(
            name, shape, dtype, initializer, trainable=trainable and self._trainable, use_resource=True
        )
        return self._made[name]

    def get_variable(self, column: Any, name: str) -> Any:
        """Returns a variable of a column."""
        return self._made[name]


def sequence_input_layer(
    features: Mapping[str, Any],
    feature_columns: Sequence[Any],
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the values of all columns at each position of a sequence, and the sequences' lengths.

    Args:
      features: name to SparseTensor of sequences, [batch, positions].
      feature_columns: columns of `tf.feature_column.sequence_*`, or embedding, shared embedding and indicator columns
        of such.
      weight_collections: further collections of the variables.
      trainable: False to leave the variables as they are.

    Returns:
      float32 [batch, positions, values], with zeros behind the end of a sequence, in the order of the columns' names;
      and int64 [batch].

    Raises:
      ValueError: a column is not of sequences.
    """
    cache, shared_cache, values, lengths = feature_cache(features), shared_sequence_cache(features), [], []
    with v1.variable_scope(None, _SCOPE):
        for column in sorted(feature_columns, key=lambda column: column.name):
            if (shared := shared_sequence(column)) is not None:
                with v1.variable_scope(None, shared.scope):
                    dense, length = shared.values(shared_cache, trainable)
                values.append(_of_positions(dense, shared.width))
                lengths.append(length)
                continue
            if not hasattr(column, "get_sequence_dense_tensor"):
                raise ValueError(
                    f"{column.name} is not a column of sequences: use one of tf.feature_column.sequence_*."
                )
            state = _Weights(trainable)
            with v1.variable_scope(None, column.name):
                if hasattr(column, "create_state"):
                    column.create_state(state)
                dense, length = column.get_sequence_dense_tensor(cache, state)
            values.append(_of_positions(dense, column.variable_shape.num_elements()))
            lengths.append(length)
        made = v1.global_variables(f"{v1.get_variable_scope().name}/")
        for name in weight_collections or ():
            v1.get_default_graph().get_collection_ref(name).extend(made)
        same = [v1.assert_equal(lengths[0], length) for length in lengths[1:]]
        with tf.control_dependencies(same):
            return tf.concat(values, -1), tf.identity(lengths[0])


def _of_positions(dense: tf.Tensor, width: int) -> tf.Tensor:
    """Returns the values of a column as [batch, positions, width]."""
    return tf.reshape(dense, tf.concat([tf.shape(dense)[:2], [width]], 0))


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
