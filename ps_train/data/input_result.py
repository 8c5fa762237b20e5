"""Features and labels of an input_fn's result, with the hook that starts its Dataset."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


class IteratorInitializerHook(v1.train.SessionRunHook):
    """Starts a Dataset's iterator in every new session.

    Args:
      iterator: an initializable iterator.
    """

    def __init__(self, iterator: Any) -> None:
        self._initializer = iterator.initializer

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the iterator from the beginning of its Dataset."""
        session.run(self._initializer)


def features_and_labels(result: Any) -> tuple[Any, Any, list[v1.train.SessionRunHook]]:
    """Returns the tensors of one batch, and the hooks that they need.

    Args:
      result: of an input_fn: a Dataset of batches, or the tensors of one batch.  A batch is (features, labels), or
        features alone: a tensor or a dict.

    Returns:
      (features, labels, hooks); labels are None where there are none.

    Raises:
      ValueError: a tuple or list that does not have two parts.
    """
    hooks: list[v1.train.SessionRunHook] = []
    if isinstance(result, tf.data.Dataset):
        iterator = v1.data.make_initializable_iterator(result)
        hooks.append(IteratorInitializerHook(iterator))
        result = iterator.get_next()
    return *split_batch(result), hooks


def split_batch(batch: Any) -> tuple[Any, Any]:
    """Returns the features and the labels of a batch; labels are None where there are none.

    Raises:
      ValueError: a tuple or list that does not have two parts.
    """
    if not isinstance(batch, list | tuple):
        return batch, None
    if len(batch) != 2:
        raise ValueError(
            f"input_fn returns batches of {len(batch)} parts: a batch must be (features, labels), or features alone."
        )
    return batch[0], batch[1]


def ends(features: Any) -> bool:
    """Returns True if features come from a Dataset or a queue, which can end."""
    tensors = [tensor for tensor in tf.nest.flatten(features) if isinstance(tensor, tf.Tensor)]
    if any(tensor.op.type == "IteratorGetNext" for tensor in tensors):
        return True
    return bool(v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS))
