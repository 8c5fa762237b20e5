"""Encoded pushes: the worker keeps what a push leaves out, and the ps apply it at the end of the job."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from ps_train.config.codec_spec import NONE
from ps_train.data.pipeline import derived_seed
from ps_train.engine.step.backward import Computed
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.step_part import Layout, MakeUpdate, Push, StepPart, ToUpdate, Updated
from ps_train.engine.transport.codecs.codec import Codec
from ps_train.engine.transport.coding import codec_of, row_codecs_of
from ps_train.engine.transport.parcels import Parcel, pack_encoded
from ps_train.engine.transport.push_encoding import PushEncoding
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.gradients.apply_gradients import RulesOfModel
from ps_train.engine.updates.gradients.momentum_correction import WithoutMomentum, momenta_of
from ps_train.engine.updates.gradients.residuals import Residuals
from ps_train.engine.variables.plan import Slice
from ps_train.engine.variables.precision import origin_dtype
from ps_train.engine.variables.variables import on_worker
from ps_train.engine.variables.worker_state import local_variable


class PushCodec(StepPart):
    """The part of a step whose pushes are encoded; only float32 is.

    Args:
      spec: specification of the replica's graph.
      codec: codec of dense gradients.
      rows: codec of the gradients of tables' rows; none: they travel as they are.
      is_weighted: whether pushes are multiplied by their number of examples.

    Attributes:
      residuals: after `update`, what the pushes have left out.
    """

    residuals: Residuals

    def __init__(self, spec: GraphSpec, codec: Codec, rows: Sequence[Codec], is_weighted: bool) -> None:
        self._spec, self._codec, self._rows, self._is_weighted = spec, codec, rows, is_weighted
        # The outer optimizer of local steps gets differences of values, of which nothing may be held back.
        names = [] if spec.job.has_local_steps else spec.variables.with_gradient()
        self._momenta = momenta_of(spec.job, RulesOfModel(spec.job, spec.model), names)
        self._sparse = set(spec.variables.sparse())
        self._seed = derived_seed(spec.job.seed, "codec", spec.replica.index)
        self._encodings: list[PushEncoding] = []
        self._kept: list[tf.Operation] = []

    def layout(self, layout: Layout) -> Layout:
        """Gives the encoded gradients parcels of their own, each of one momentum.

        A gradient that touches only some rows is not encoded: what is kept of the others would change them, too.
        """
        codec = self._codec

        def laid_out(slices: Sequence[Slice], ps: int) -> list[Parcel]:
            encoded = [piece for piece in slices if piece.dtype == "float32" and piece.variable not in self._sparse]
            momenta = dict.fromkeys(self._momenta.get(piece.variable) for piece in encoded)
            groups = [[p for p in encoded if self._momenta.get(p.variable) == momentum] for momentum in momenta]
            own = [parcel for group in groups for parcel in pack_encoded(group, ps, codec.multiple)]
            return own + layout([piece for piece in slices if piece not in encoded], ps)

        return laid_out

    def push(self, push: Push) -> Push:
        """Encodes the push to each ps."""

        def pushed(pushes: list[ReceivedPush], computed: Computed) -> list[ReceivedPush]:
            number = self._count_push()
            gradients = computed.gradients.items()
            origins = {name: one.dtype if self._is_weighted else origin_dtype(one) for name, one in gradients}
            return push([self._encoded(one, number, origins) for one in pushes], computed)

        return pushed

    def _count_push(self) -> tf.Tensor:
        """Returns the number of this push among the replica's, int64 scalar: a part of the codec's seed."""
        count = local_variable("ps_train/pushes", [], tf.int64)
        number = count.read_value()
        with tf.control_dependencies([number]):
            self._kept.append(count.assign_add(1, read_value=False))
        return number

    def _encoded(self, push: ReceivedPush, number: tf.Tensor, origins: Mapping[str, tf.DType]) -> ReceivedPush:
        seed = tf.stack([tf.constant(self._seed + (push.ps << 20), tf.int64), number])
        for codec in self._rows:
            push = dataclasses.replace(push, rows=tuple(some.encoded(codec, seed) for some in push.rows))
        if not any(parcel.is_encoded for parcel in push.parcels):
            return push
        encoding = PushEncoding(push.parcels, self._codec, self._momenta)
        self._encodings.append(encoding)
        vectors, kept = encoding.encode(push.vectors, seed, origins)
        self._kept += kept
        return dataclasses.replace(push, vectors=vectors, decode=encoding.decode)

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Leaves momentum on the worker; keeps what the push has left out, in the step."""
        plan = self._spec.plan

        def updated(given: ToUpdate) -> Updated:
            if self._momenta:
                slices = {piece.name for name in self._momenta for piece in plan.slices_of(name)}
                given = dataclasses.replace(given, rules=WithoutMomentum(given.rules, slices))
            made = update(given)
            with on_worker(self._spec.device):
                apply = [optimizer.apply_residuals for optimizer in made.optimizers]
                self.residuals = Residuals(self._encodings, apply, self._is_weighted)
            return dataclasses.replace(made, ops=dataclasses.replace(made.ops, train=[*made.ops.train, *self._kept]))

        return updated


def push_codecs(spec: GraphSpec, is_weighted: bool) -> list[PushCodec]:
    """Returns the part of the codec that a job names: none, or one."""
    (text, *others) = spec.job.push_codecs
    return [] if others or text == NONE else [PushCodec(spec, codec_of(text), row_codecs_of(text), is_weighted)]
