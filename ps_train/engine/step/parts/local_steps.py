"""Local steps: a worker trains values of its own, and exchanges what they have changed with the ps once a round.

    --local_steps=32 --outer_optimizer=nesterov

A round is one pull, some steps on the worker alone, and one push.  The part divides a step into three sections that
know each other only by the worker's variables, so `LocalCalls` may repeat the second one:

1. The pull assigns `start` and `now`, the values at the beginning of the round and the present ones.
2. A local step reads a batch, differentiates the model at `now`, and applies the job's optimizer to it.  Clipping, L2,
   loss scaling and accumulated batches belong here: the part wraps all others that compute.
3. The push sends `start - now` as a gradient; the ps apply it with the outer optimizer.

A model with tables has a section before the pull: it reads the batches of a round, whose rows are then pulled once
(`kept_batches.py`, `local_rows.py`).

What the push needs of the pull, such as the version of the values, is kept beside them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ps_train.base.gauge import Gauge
from ps_train.base.private_tf import add_control_inputs, rename_variable
from ps_train.data.pipeline import Batches
from ps_train.engine.step.backward import Computed, PulledInputs
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.inner_optimizer import InnerOptimizer
from ps_train.engine.step.kept_batches import KeptBatches
from ps_train.engine.step.local_calls import LocalCalls, RoundSections
from ps_train.engine.step.local_rows import LocalRows, ahead_read, row_read
from ps_train.engine.step.parts.following import FollowingPart, sync_limit
from ps_train.engine.step.parts.step_part import (
    Ahead,
    Compute,
    MakeCalls,
    MakeUpdate,
    Pull,
    Pulled,
    Push,
    StepPart,
    ToUpdate,
    Updated,
)
from ps_train.engine.step.round_notes import KeptScalars, RoundNotes
from ps_train.engine.step.unroll import Section, UnrolledCalls, UnrolledStep
from ps_train.engine.transport.beside_rows import TOUCHED
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.transport.row_exchange import RowPush, RowRead
from ps_train.engine.transport.sparse_mask import mask_name
from ps_train.engine.updates.following.adaptation import ADAPTED
from ps_train.engine.updates.following.batch_size_control import ScheduledValue
from ps_train.engine.updates.gradients.apply_gradients import AppliedOptimizers
from ps_train.engine.updates.gradients.outer_optimizer import OuterRules
from ps_train.engine.updates.gradients.push_guard import are_finite, stop_if_not_finite
from ps_train.engine.updates.gradients.restarts import Restarts
from ps_train.engine.updates.gradients.row_updates import RowUpdates
from ps_train.engine.updates.modes.base import RateDivisor, UpdateMode
from ps_train.engine.updates.modes.shard_part import ShardPart, Update
from ps_train.engine.variables.variables import CheckpointEntry, on_worker, ps_device, zeros_variable
from ps_train.engine.variables.worker_state import local_variable
from ps_train.modeling.tables.deferred_lookups import OfVocabularies

ROUNDS = Gauge(
    "rounds", "Rounds", "Exchanges of local steps that the parameter servers have applied in this run.", "",
    "rounds_total", "Exchanges of local steps that were applied.", word="rounds",
)  # fmt: skip


class LocalSteps(StepPart):
    """The part of a step whose worker trains values of its own.

    Args:
      spec: specification of the replica's graph.
      update: the update mode.
      rate_divisors: divisors of the inner optimizer's learning rate.
    """

    def __init__(self, spec: GraphSpec, update: UpdateMode, rate_divisors: Sequence[RateDivisor]) -> None:
        self._spec, self._update, self._rate_divisors = spec, update, rate_divisors
        self._inner = InnerOptimizer(spec, rate_divisors)
        self._tables = spec.variables.tables_by_name() if spec.job.local_tables else {}
        names = {piece.name for name in self._tables for piece in spec.plan.slices_of(name)}
        self._outer = OuterRules(spec.job, spec.replica.declared, self._inner.rules, {*self._tables, *names})
        self._is_elastic = spec.job.is_elastic_average
        self._limits = spec.job.local_step_limits
        self._pushed: list[tf.Tensor] = []
        self._drawn: list[tf.Tensor] = []
        self._pushed_rows: dict[int, RowPush] = {}
        self._kept_pull: list[tf.Operation] = []

    def pull(self, pull: Pull) -> Pull:
        """Keeps what is pulled; the step gets the worker's own values."""

        def pulled(received: Callable[[tf.Tensor], tf.Tensor]) -> Pulled:
            found = pull(received)
            started = [] if self._update.started_at is None else [self._update.started_at]
            first, *others = found.versions
            self._kept = KeptScalars([[first, found.step, *started], *([one] for one in others)], found.torn)
            self._now = {name: _variable(f"now/{name}", name, value) for name, value in found.values.items()}
            trained = self._spec.variables.with_gradient()
            self._start = {name: _variable(f"start/{name}", name, found.values[name]) for name in trained}
            # Under `elastic` only the first pull gives the worker its values: others come before their push.
            given, opening = ({}, found.values) if self._is_elastic else (found.values, {})
            self._pulled_step, self._round_steps = self._kept.of_ps[0][1], tf.identity(self._steps_at(found.step))
            self._kept_pull = [self._kept.assign, *_assigned(self._start, found.values), *_assigned(self._now, given)]
            self._begin = _assigned(self._now, opening)
            self._notes = RoundNotes(self._limits.upper)
            self._exchange = found.exchange
            self._rows = LocalRows(found.exchange, self._tables)
            self._versions = found.versions
            values = {name: _value_of(variable) for name, variable in self._now.items()}
            return dataclasses.replace(
                found,
                values=values,
                step=self._kept.values[0][1] + self._notes.done,
                read=[],
                torn=found.torn if self._is_elastic else self._kept.own,
                is_kept=True,
            )

        return pulled

    @property
    def _before_push(self) -> list[tf.Operation]:
        """What the push waits for; under `elastic` its distance is that from the present values of the ps."""
        return [self._local, self._pull] if self._is_elastic else [self._local]

    def _steps_at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the most steps of the round that begins at a global step, int64 scalar."""
        return tf.constant(self._limits.upper, tf.int64)

    def compute(self, compute: Compute) -> Compute:
        """Makes a local step after the model's; the push gets what the round has changed."""

        def computed(inputs: PulledInputs, batches: Batches) -> Computed:
            if self._tables:
                vocabularies = self._noted(inputs.vocabularies)
                inputs = dataclasses.replace(inputs, fetch=self._rows.fetch, vocabularies=vocabularies)
            found = compute(inputs, batches)
            if found.rows and not self._tables:
                self._pushed_rows = self._exchange.push(
                    {name: found.gradients[name] for name in found.rows}, {TOUCHED: found.used}
                )
            self._local = self._local_step(inputs, found)
            self._kept_pull += self._inner.pulled_rate(self._versions[:1])
            if self._is_elastic:
                self._pull = tf.group(*self._kept_pull, name="ps_train/round/pull")
            with tf.control_dependencies(self._before_push):
                now = {name: variable.read_value() for name, variable in self._now.items()}
                start = {name: variable.read_value() for name, variable in self._start.items()}
                rows, beside = self._rows.changed()
                self._notes.end()
            self._changed = {name: start[name] - now[name] for name in found.gradients if name in start}
            masks = {name: tf.ones_like(mask) for name, mask in found.masks.items()}
            state = {name: now[name] for name in found.state}
            return dataclasses.replace(
                found,
                gradients={**self._changed, **rows},
                rows=found.rows if self._tables else {},
                used={},
                beside={
                    kind: {name: self._unscaled(one) for name, one in some.items()} for kind, some in beside.items()
                },
                masks=masks,
                examples=self._notes.examples,
                state=state,
                progress=self._notes.places,
                sums=self._notes.sums,
                updates=[self._local],
                judged=tf.zeros_like(found.judged),
                skipped=(),
            )

        return computed

    def _unscaled(self, beside: tf.Tensor) -> tf.Tensor:
        """Returns what travels beside rows such that a sum remains one where pushes are multiplied by examples."""
        return beside / tf.maximum(self._notes.examples, 1.0) if self._spec.job.rows_are_mean else beside

    def _noted(self, vocabularies: OfVocabularies) -> OfVocabularies:
        """Returns the functions on open vocabularies; what they return is read before the round."""

        def draw(*arguments: Any) -> list[tf.Tensor]:
            drawn = vocabularies.draw(*arguments)
            self._drawn += drawn
            return drawn

        def uses(*arguments: Any) -> tf.Tensor:
            found = vocabularies.uses(*arguments)
            self._drawn.append(found)
            return found

        return dataclasses.replace(vocabularies, draw=draw, uses=uses)

    def entries(self) -> list[CheckpointEntry]:
        """Returns the entry of the learning rate, if it may be changed from outside."""
        return self._inner.entries(follower=bool(self._pushed_rows))

    @property
    def own_slots(self) -> dict[str, Any]:
        """The slots of the worker, by the keys that they would have in a checkpoint."""
        return self._inner.slots

    def _local_step(self, inputs: PulledInputs, found: Computed) -> tf.Operation:
        """Returns the operation that ends a local step."""
        job = self._spec.job
        sent = [] if self._tables else [*found.rows]  # rows that travel in this step
        gradients: dict[str, Any] = {name: one for name, one in found.gradients.items() if name not in sent}
        judged: list[tf.Tensor] = []
        if job.on_nan == "stop":
            # A gradient that is not finite makes values and the next loss so, but for an optimizer that hides it; the
            # push judges them at the end.
            names = found.gradients if self._inner.hides_nan(inputs.step) else sent
            some = [getattr(found.gradients[name], "values", found.gradients[name]) for name in names]
            judged = stop_if_not_finite(found.judged, [found.judged, *some])
        left_out = [*found.skipped]
        if job.on_nan == "skip":
            left_out.append(~are_finite([found.judged, *found.gradients.values()]))
        is_there = found.examples > 0
        is_left_out = tf.reduce_any(tf.stack(left_out)) if left_out else tf.constant(False)
        is_used = is_there & ~is_left_out
        with tf.control_dependencies(judged):  # rows are sent with it
            self._used_examples = tf.where(is_used, found.examples, tf.zeros_like(found.examples))
        self._step = inputs.step
        may_be_empty = bool(left_out) or job.epochs > 0 or job.is_dynamic or self._spec.model.ends_itself
        used = found.used if self._tables else {}
        masked = {mask_name(name): mask for name, mask in {**found.masks, **used}.items()}
        for name, place in self._rows.places.items():
            gradients[name] = tf.IndexedSlices(gradients[name], place)

        def others() -> list[tf.Operation]:
            return [*_assigned(self._now, found.state), *self._rows.used()]

        # A value may be read for the loss alone, which no gradient waits for.
        read = [*inputs.values.values(), *found.gradients.values(), *found.state.values(), *self._rows.read(), *judged]
        # The values of a warm start were trained, without slots.
        is_start = tf.constant(False) if job.warm_start else self._kept.values[0][1] <= 0
        restarts = Restarts(self._now.values(), is_start)
        variables, condition = {**self._now, **self._rows.variables}, is_used if may_be_empty else None
        with tf.control_dependencies(read):
            applied = self._inner.apply(
                variables, {**gradients, **masked}, found.examples, inputs.step, condition, others, restarts
            )
            passed = self._rows.passed()
        self._rows.with_slots(self._inner.row_slots)
        is_step = is_there if self._update.lockstep else is_used  # a batch that is left out is one of a round's
        noted = self._notes.add(found, is_there, is_used, is_step, after=[inputs.step])
        return tf.group(applied, noted, *passed, *found.updates, name="ps_train/round/local")

    def push(self, push: Push) -> Push:
        """Tells the ps for how many steps the push stands."""

        def pushed(pushes: list[ReceivedPush], computed: Computed) -> list[ReceivedPush]:
            with tf.control_dependencies(self._before_push):
                self._sent, self._told = self._kept.send([self._notes.steps, self._notes.left_out])
            rounds = []
            for one, told in zip(pushes, self._told, strict=True):
                with tf.device(ps_device(one.ps)):
                    rounds.append(dataclasses.replace(one, round=(told[-2:],)))
            return push(rounds, computed)

        return pushed

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Applies what was changed with the outer optimizer."""

        def updated(given: ToUpdate) -> Updated:
            versions = []
            for ps, told in enumerate(self._told):
                with tf.device(ps_device(ps)):
                    versions.append(told[0])
            given = dataclasses.replace(given, rules=self._outer, versions=versions)
            self._rounds = RoundsOnPs()
            given = given.with_shard_parts({0: self._rounds})
            if self._update.started_at is not None:
                with tf.device(ps_device(0)):
                    self._update.started_at = tf.bitcast(self._told[0][2], tf.float64)
            made = update(given)
            self._optimizers = made.of_rows or made.optimizers
            if self._pushed_rows:
                made = dataclasses.replace(made, of_rows=self._updated_rows(given))
            if self._is_elastic or self._tables:  # the next round begins without a pull: at the step after the push
                self._pushed = [made.ops.step_after, tf.identity(self._steps_at(made.ops.step_after))]
            with on_worker(self._spec.device), tf.device(self._spec.towers.home):
                own = [*self._moves(), *self._fresh(), self._notes.forgotten(self._notes.read)]
                if self._is_elastic:
                    with tf.control_dependencies([self._pull, *self._sent]):
                        own.append(self._kept.renew(0, 1, made.ops.step_after))
            return dataclasses.replace(made, ops=dataclasses.replace(made.ops, train=[*made.ops.train, *own]))

        return updated

    def _updated_rows(self, given: ToUpdate) -> list[AppliedOptimizers]:
        """Lets each local step apply its rows on the ps, where they do not stay on the worker."""
        optimizers = given.make_optimizers(self._inner.rules)
        rows = RowUpdates(optimizers, self._rate_divisors)
        done = [rows.update(ps, [push], self._used_examples, self._step) for ps, push in self._pushed_rows.items()]
        add_control_inputs(self._local, done)
        return optimizers

    def gauges(self) -> Mapping[Gauge, tf.Tensor]:
        """Returns the number of rounds, and the most steps of one."""
        return {ROUNDS: self._rounds.count.read_value(), ADAPTED["local_steps"]: self._newest_steps()}

    def _newest_steps(self) -> tf.Tensor:
        """Returns the most steps of a round that begins now, int64 scalar."""
        with tf.device(ps_device(0)):
            return tf.constant(self._limits.upper, tf.int64)

    def _moves(self) -> list[tf.Operation]:
        """Returns the operations that move the worker's values towards those of the ps, under `elastic`."""
        if not self._is_elastic:
            return []
        alpha = self._outer.alpha
        return [
            self._now[name].assign_add(tf.cast(alpha, changed.dtype) * changed, read_value=False)
            for name, changed in self._changed.items()
        ]

    def _fresh(self) -> list[tf.Operation]:
        """Returns the operations that begin the slots of the inner optimizer anew, after a round."""
        if self._spec.job.inner_state == "keep":
            return []
        with tf.control_dependencies([self._local]):
            return self._inner.fresh()

    def calls(self, calls: MakeCalls) -> MakeCalls:
        """Makes the calls of rounds."""

        def made(step: UnrolledStep, ahead: Ahead) -> UnrolledCalls:
            opening = [*self._begin, self._notes.forgotten(), *self._inner.begun()]
            front: Section | None = None
            with on_worker(self._spec.device), tf.device(self._spec.towers.home):
                begun = ahead.begin()
                if self._tables:
                    batches = KeptBatches(self._spec.plan.num_ps, self._rows.ids, self._drawn, self._notes.done)
                    self._kept_pull += self._rows.pulled(batches.ids, self._reads(), self._versions)
                    front, opening = batches.front, [*opening, *batches.forgotten()]
                    step = dataclasses.replace(step, train=[*step.train, *batches.forgotten([self._local])])
                if not self._is_elastic:
                    self._pull = tf.group(*self._kept_pull, name="ps_train/round/pull")
                made = self._notes.steps if self._update.lockstep else self._notes.steps + self._notes.left_out
            told = [self._pulled_step, self._round_steps]
            sections = RoundSections(self._local, self._pull, begun, told, opening, self._pushed, front)
            return LocalCalls(step, self._spec.plan.num_ps, sections, made)

        return made

    def _reads(self) -> dict[str, RowRead]:
        """Returns how the slices of tables are read with their slots."""
        reads = {}
        for name in self._tables:
            for piece in self._spec.plan.slices_of(name):
                optimizers = self._optimizers[piece.ps]
                slots = optimizers.row_slots(piece.name)
                if piece.name in optimizers.vocabularies:
                    reads[piece.name] = ahead_read(optimizers.vocabularies[piece.name], slots)
                elif slots:
                    reads[piece.name] = row_read(optimizers.variables[piece.name], slots)
        return reads


class FollowingLocalSteps(LocalSteps, FollowingPart):
    """Local steps of which a round has more, the more of its time the exchange takes."""

    adapted: ScheduledValue

    def pull(self, pull: Pull) -> Pull:
        """Pulls the number of local steps too."""
        self.adapted = ScheduledValue("local_steps", self._limits, sync_limit(self._spec.job))
        return super().pull(pull)

    def _steps_at(self, step: tf.Tensor) -> tf.Tensor:
        return self.adapted.at(step)

    def _newest_steps(self) -> tf.Tensor:
        return self.adapted.newest()


def local_steps(spec: GraphSpec, update: UpdateMode, rate_divisors: Sequence[RateDivisor]) -> LocalSteps:
    """Returns the part of a job with local steps; see the class."""
    kind = FollowingLocalSteps if spec.job.local_step_limits.is_range else LocalSteps
    return kind(spec, update, rate_divisors)


class RoundsOnPs(ShardPart):
    """The number of rounds that were applied, on ps 0.

    Attributes:
      count: int64 variable.
    """

    def __init__(self) -> None:
        with tf.device(ps_device(0)):
            self.count = zeros_variable("ps_train/rounds", tf.int64)

    def updated(self, update: Update) -> list[tf.Operation]:
        """Counts an update."""
        return [self.count.assign_add(1, read_value=False)]


def _variable(name: str, reported: str, value: tf.Tensor) -> Any:
    """Makes a variable of the worker that reports the name of the model's, by which optimizers have rules."""
    found = local_variable(f"ps_train/{name}", value.shape, value.dtype)
    rename_variable(found, reported)
    return found


def _value_of(variable: Any) -> tf.Tensor:
    """Returns the present value, at which gradients end.

    `tf.recompute_grad` would else look for the variable among those of the program.
    """
    return tf.stop_gradient(tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype))


def _assigned(variables: Mapping[str, Any], values: Mapping[str, tf.Tensor]) -> list[tf.Operation]:
    """Returns the assignments of those variables that have a value."""
    return [variables[name].assign(value, read_value=False) for name, value in values.items() if name in variables]
