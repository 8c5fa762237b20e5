"""What a worker keeps of a round of local steps, in variables of its own: what it has pulled, and what it has made.

    kept, notes = KeptScalars([[version, step]]), RoundNotes(most=32)
    notes.add(computed, is_there, is_used, is_step, after=[step])      # in each local step
    notes.end()                                                        # after the last one: the attributes are the sums
    _, on_ps = kept.send([notes.steps])                                # with the push
    notes.forgotten(after=notes.read)                                  # begins the next round

They are small and stay on the CPU.  A session begins by forgetting them: what was not pushed never happened.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ps_train.engine.step.backward import Computed
from ps_train.engine.variables.variables import ps_device
from ps_train.engine.variables.worker_state import local_variable

_CPU = "/device:CPU:0"


class RoundNotes:
    """The notes of a round; make the object, and call its methods, in the worker's device scope.

    Args:
      most: the most batches of a round.

    Attributes:
      done: int64 scalar, the local steps that were made; read where the object is made.
      steps: after `end`, int64 scalar, the steps that the round stands for.
      left_out: after `end`, int64 scalar, the batches that were left out.
      examples: after `end`, float32 scalar, the examples of those that were used.
      places: after `end`, as `Computed.progress`; batches that follow each other in a shard are one.
      sums: after `end`, as `Computed.sums`.
      read: after `end`, all of these.
    """

    steps: tf.Tensor
    left_out: tf.Tensor
    examples: tf.Tensor
    places: Sequence[tf.Tensor] = ()
    sums: Sequence[tf.Tensor] = ()
    read: Sequence[tf.Tensor] = ()

    def __init__(self, most: int) -> None:
        self._most = most
        with tf.device(_CPU):
            self._done = local_variable("ps_train/round/done", [], tf.int64)
            self._steps = local_variable("ps_train/round/steps", [], tf.int64)
            self._left_out = local_variable("ps_train/round/left_out", [], tf.int64)
            self._examples = local_variable("ps_train/round/examples", [])
            self.done = self._done.read_value()
        self._counts = [self._done, self._steps, self._left_out, self._examples]
        self._sums: list[Any] = []
        self._rows: list[Any] = []

    def add(
        self,
        found: Computed,
        is_there: tf.Tensor,
        is_used: tf.Tensor,
        is_step: tf.Tensor,
        after: Sequence[tf.Tensor],
    ) -> tf.Operation:
        """Returns the operation that notes a local step.

        Args:
          found: what the step has computed.
          is_there: bool scalar, whether its batch has examples.
          is_used: bool scalar, whether its gradient is applied.
          is_step: bool scalar, whether it is a step of the round.
          after: tensors that are read before the notes change.
        """
        self._sums = [local_variable(f"ps_train/round/sums_{i}", one.shape) for i, one in enumerate(found.sums)]
        terms: list[tuple[Any, tf.Tensor]] = [
            (self._done, tf.constant(1, tf.int64)),
            (self._steps, tf.cast(is_step, tf.int64)),
            (self._left_out, tf.cast(is_there & ~is_used, tf.int64)),
            (self._examples, tf.where(is_used, found.examples, tf.zeros_like(found.examples))),
            *(
                (total, tf.where(is_there, one, tf.zeros_like(one)))
                for total, one in zip(self._sums, found.sums, strict=True)
            ),
        ]
        with tf.control_dependencies(after):
            added = [total.assign_add(term, read_value=False) for total, term in terms]
        return tf.group(*added, *(self._placed(one[0]) for one in found.progress))

    def _placed(self, place: tf.Tensor) -> tf.Operation:
        """Returns the operation that notes the place of a batch in its shard, int64 [3]; -1 stands for no shard."""
        with tf.device(_CPU):
            rows = local_variable("ps_train/round/batches", [self._most, 3], tf.int64)
            count = local_variable("ps_train/round/noted", [], tf.int64)
            self._rows, self._counts = [rows, count], [*self._counts, count]
            shard, begin, end = tf.unstack(place)
            noted = count.read_value()
            before = rows.sparse_read(tf.range(noted))  # batches of several shards may come in turn
            followed = tf.where(tf.equal(before[:, 0], shard) & tf.equal(before[:, 2], begin))[:, 0]
            index = tf.reduce_min(tf.concat([followed, noted[tf.newaxis]], 0))
            first = tf.reduce_min(tf.concat([tf.gather(before[:, 1], followed), begin[tf.newaxis]], 0))
            written = rows.scatter_nd_update([[index]], [tf.stack([shard, first, end])]).op
            with tf.control_dependencies([written]):
                is_new = (shard >= 0) & tf.equal(index, noted)
                return count.assign(noted + tf.cast(is_new, tf.int64), read_value=False)

    def end(self) -> None:
        """Reads all notes at the end of a round."""
        with tf.device(_CPU):
            self.steps, self.left_out = self._steps.read_value(), self._left_out.read_value()
            self.examples = self._examples.read_value()
            self.places = [self._rows[0].read_value()[: self._rows[1].read_value()]] if self._rows else []
        self.sums = [total.read_value() for total in self._sums]
        self.read = [self.steps, self.left_out, self.examples, *self.places, *self.sums]

    def forgotten(self, after: Sequence[tf.Tensor] = ()) -> tf.Operation:
        """Returns the operation that forgets the notes, after these tensors."""
        with tf.control_dependencies(after):
            return tf.group(*(one.assign(tf.zeros_like(one), read_value=False) for one in [*self._counts, *self._sums]))


class KeptScalars:
    """Scalars of a pull that its push needs; those of one ps travel together.

    Each message costs more than what a round keeps.

    Args:
      of_ps: for each ps the scalars there, of 64 bits.
      own: scalars on the worker.

    Attributes:
      assign: keeps those of a pull.
      of_ps: the scalars of each ps, int64 on the worker, as they arrive.
      values: of those the kept ones.
      own: the kept scalars of the worker.
    """

    def __init__(self, of_ps: Sequence[Sequence[tf.Tensor]], own: Sequence[tf.Tensor] = ()) -> None:
        self.of_ps = []
        for ps, scalars in enumerate(of_ps):
            with tf.device(ps_device(ps)):
                packed = tf.stack([tf.bitcast(one, tf.int64) for one in scalars])
            with tf.device(_CPU):
                self.of_ps.append(tf.unstack(packed))
        with tf.device(_CPU):
            self._variables = [
                [local_variable(f"ps_train/kept/{ps}/{i}", [], tf.int64) for i in range(len(scalars))]
                for ps, scalars in enumerate(of_ps)
            ]
            self._own = [local_variable(f"ps_train/kept/own/{i}", [], one.dtype) for i, one in enumerate(own)]
            variables = [*itertools.chain(*self._variables), *self._own]
            pairs = zip(variables, [*itertools.chain(*self.of_ps), *own], strict=True)
            self.assign = tf.group(*(variable.assign(value, read_value=False) for variable, value in pairs))
            self.values = [[one.read_value() for one in some] for some in self._variables]
            self.own = [one.read_value() for one in self._own]

    def renew(self, ps: int, place: int, value: tf.Tensor) -> tf.Operation:
        """Returns the operation that changes one of a ps."""
        with tf.device(_CPU):
            return self._variables[ps][place].assign(value, read_value=False)

    def send(self, further: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Reads the kept scalars and sends them back to their ps.

        Args:
          further: int64 scalars to send to all of them too.

        Returns:
          For each ps a vector, int64 [n]: on the worker and on the ps.
        """
        sent, received = [], []
        for ps, variables in enumerate(self._variables):
            with tf.device(_CPU):
                sent.append(tf.stack([*(one.read_value() for one in variables), *further]))
            with tf.device(ps_device(ps)):
                received.append(tf.identity(sent[-1]))
        return sent, received
