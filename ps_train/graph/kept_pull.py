"""Values that a worker keeps from the end of one call to the beginning of the next.

    kept = KeptPull(transport.pulled)
    kept.values["Reshape:0"]        # on the worker, in place of the tensor of this name
    kept.keep(copies)               # replaces what is kept by newly pulled values

Pulled ahead of its turn, the first step of a call finds its values on the worker (`graph/unroll.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ps_train.runtime.local_state import local_variable


class KeptPull:
    """The kept values of one replica; make it in the worker's device scope.

    Args:
      pulled: the tensors that a step reads on the ps, of known shapes.

    Attributes:
      values: name of a pulled tensor to its kept value.
    """

    def __init__(self, pulled: Sequence[tf.Tensor]) -> None:
        self._variables = [
            local_variable(f"ps_train/kept_pull_{index}", tensor.shape.as_list(), tensor.dtype)
            for index, tensor in enumerate(pulled)
        ]
        read = [variable.read_value() for variable in self._variables]
        self.values = {tensor.name: value for tensor, value in zip(pulled, read, strict=True)}

    def keep(self, found: Sequence[tf.Tensor]) -> list[tf.Operation]:
        """Makes the operations that keep new values, after the present call has read the old ones.

        Args:
          found: the new values, in the order of `pulled`.
        """
        changes = []
        for variable, old, new in zip(self._variables, self.values.values(), found, strict=True):
            with tf.device(variable.device), tf.control_dependencies([old]):
                changes.append(variable.assign(new, read_value=False))
        return changes
