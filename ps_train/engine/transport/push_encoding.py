"""The encoding of the pushes to one ps: which parcels are encoded, and how they travel.

    encoding = PushEncoding(parcels, codec, momentum_of)
    wires, done = encoding.encode(vectors, seed, {"w": tf.float32})     # on the worker
    vectors = encoding.decode(wires)                                # on the ps

A parcel that is encoded has no header.  Where the header has a parcel of its own, it travels with an encoded one,
because every tensor is a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from ps_train.engine.transport.codecs.codec import Codec
from ps_train.engine.transport.codecs.feedback import ErrorFeedback, Momentum
from ps_train.engine.transport.codecs.wire import as_one, from_one
from ps_train.engine.transport.parcels import Parcel
from ps_train.engine.variables.worker_state import local_variable

HEADER_SIZE = 3


class PushEncoding:
    """The encoding of one replica's pushes to one ps; make it on the worker's device.

    Args:
      parcels: the parcels, of which the last has the header if no other one has it.
      momenta: variable name to momentum, for those whose velocity the worker adds up.

    Attributes:
      ps: index of the ps.
      feedback: index of each encoded parcel to what it has not sent yet.
      examples: float32 scalar variable on the worker, examples of the last push; 0 if nothing is left out.
    """

    def __init__(self, parcels: Sequence[Parcel], codec: Codec, momenta: Mapping[str, Momentum]) -> None:
        self.ps, self.parcels, self._codec = parcels[0].ps, tuple(parcels), codec
        self.examples = local_variable(f"ps_train/residual_{self.ps}/examples", [])
        self.feedback: dict[int, ErrorFeedback] = {}
        for number, parcel in enumerate(parcels):
            if parcel.is_encoded:
                name = f"ps_train/residual_{parcel.ps}/{number}"
                momentum = momenta.get(parcel.slices[0].variable)
                self.feedback[number] = ErrorFeedback(name, codec, parcel.length, momentum)
        last = len(parcels) - 1
        rides = bool(self.feedback) and not parcels[last].slices
        self._rider = last if rides else None
        """Number of the parcel that has nothing but the header and travels with another one."""
        self._carrier = min(self.feedback, key=lambda number: parcels[number].length) if rides else None

    def encode(
        self, vectors: Sequence[tf.Tensor], seed: tf.Tensor, origins: Mapping[str, tf.DType]
    ) -> tuple[tuple[tf.Tensor, ...], list[tf.Operation]]:
        """Encodes a push.

        Args:
          vectors: one for each parcel.
          seed: int32 [2].
          origins: variable name to the dtype in which its gradient was computed.  A parcel whose gradients all have the
            dtype that travels leaves nothing out.

        Returns:
          The tensors to send, and the operations that keep what is not sent.
        """
        wires: list[tf.Tensor] = []
        done: list[tf.Operation] = []
        examples = self._examples(vectors)
        is_used = examples > 0
        done.append(self.examples.assign(tf.where(is_used, examples, self.examples), read_value=False))
        for number, vector in enumerate(vectors):
            if number in self.feedback:
                if self._is_lossless(self.parcels[number], origins):
                    parts = self._codec.encode(vector, seed + number)
                else:
                    parts, kept = self.feedback[number].encode(vector, seed + number, is_used)
                    done.append(kept)
                rider = [vectors[self._rider]] if self._rider is not None and number == self._carrier else []
                wires.append(as_one([*parts, *rider]))
            elif number != self._rider:
                wires.append(vector)
        return tuple(wires), done

    def decode(self, wires: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Returns the vectors of a push, one for each parcel, on the device of the caller."""
        vectors: list[tf.Tensor] = []
        header = None
        for number, wire in enumerate(wires):
            if number not in self.feedback:
                vectors.append(wire)
                continue
            dtypes = self._codec.dtypes
            carries = number == self._carrier
            parts = from_one(wire, (*dtypes, tf.float32) if carries else dtypes)
            header = parts.pop() if carries else header
            vector = self._codec.decode(parts, self.parcels[number].length)
            vectors.append(tf.ensure_shape(vector, [self.parcels[number].length]))
        return (*vectors, *([tf.ensure_shape(header, [HEADER_SIZE])] if header is not None else []))

    def _is_lossless(self, parcel: Parcel, origins: Mapping[str, tf.DType]) -> bool:
        return all(self._codec.is_lossless_for(origins[piece.variable]) for piece in parcel.slices)

    def _examples(self, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the number of examples in the header, float32 scalar."""
        pairs = zip(self.parcels, vectors, strict=True)
        return next(vector[parcel.length - HEADER_SIZE] for parcel, vector in pairs if parcel.header)
