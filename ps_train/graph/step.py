"""Assembles the graph of one replica: batch, pull, forward, backward, push, update.

    step = build_step(job, model, source, traced, plan, Replica(index=0, count=2, declared=2), worker_device)
    session.run(step.ops.train)

Two passes build a model: `trace` ran it once to learn its variables; `backward` builds it again with the pulled values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config import Job, described
from ps_train.data.leased import Leased
from ps_train.data.readers import reader_of
from ps_train.data.shard import Batches, Share, Source, derived_seed, training_batches
from ps_train.errors import ConfigError
from ps_train.faults import lost_share
from ps_train.gradients import finite, transforms_of
from ps_train.gradients.lost import lose
from ps_train.graph.backward import mean_gradients
from ps_train.graph.handout import Handout
from ps_train.graph.plan import Plan
from ps_train.graph.rows import masked, touched
from ps_train.graph.rule import Rule
from ps_train.graph.tables import Exchange
from ps_train.graph.trace import Traced
from ps_train.graph.transport import Arrived, Transport, nothing
from ps_train.graph.unroll import Copy, repeated
from ps_train.graph.variables import Stored, make_variables, ps_device, ps_of, stored_variables
from ps_train.graph.vocabulary import Vocabulary, make_vocabularies, rebuilt, saving_order
from ps_train.model import Model
from ps_train.updates import make_update
from ps_train.updates.base import Counts, Replica, Shard, StepOps
from ps_train.updates.ledger import Ledger
from ps_train.updates.staleness import BINS

Guard = Callable[[list[tf.Tensor]], list[tf.Tensor]]
"""Given what is to be pushed, what is pushed in its place."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A replica's graph and the handles to what it runs and fetches.

    Attributes:
      more: the steps that may follow the first in the same run.
      is_endless: whether the input never ends.
      loss: float scalar of this replica's batch, before the update.
      examples: float32 scalar, how many examples the step stands for; 0 when the input has ended.
      global_step: variable on ps 0.
      counts: variables on ps 0.
      stored: all variables that a checkpoint holds; complete on replica 0 only.
      initialise: for each ps, what gives every variable there its initial value.
      uninitialised: bool vector, one entry for each stored variable.
      leased: what the batches are read from, where shards of the data are handed out.
      handout: who holds them; with `leased`.
    """

    graph: tf.Graph
    batches: Batches
    ops: StepOps
    more: list[Copy]
    loss: tf.Tensor
    examples: tf.Tensor
    global_step: tf.Variable
    counts: Counts
    stored: list[Stored]
    initialise: list[tf.Operation]
    uninitialised: tf.Tensor
    lockstep: bool
    is_endless: bool
    leased: Leased | None = None
    handout: Handout | None = None

    def run_of(self, length: int) -> dict[str, Any]:
        """What to fetch for so many steps in one run: the operations, and how many examples each step stands for
        where that says whether it was one at all."""
        steps = [Copy(self.ops.train, self.examples), *self.more[: length - 1]]
        return {
            "train": [op for step in steps for op in step.train],
            "examples": [] if self.is_endless else [step.examples for step in steps],
        }


def build_step(
    job: Job, model: Model, source: Source, traced: Traced, plan: Plan, replica: Replica, worker_device: str
) -> Step:
    """The graph of one replica.  `worker_device` is its own device, `/job:worker/replica:0/task:1`."""
    if job.accumulate > 1 and traced.tables():
        raise ConfigError(
            f"{described(job, 'accumulate')} is not possible with tables ({', '.join(traced.tables())}): "
            "use accumulate=1 and a larger batch_size."
        )
    update = make_update(job)
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(derived_seed(job.seed, "replica", replica.index))
        clocks, counts = _clocks(plan.num_ps), _counts(replica.count)
        stamps = update.stamps(clocks, replica)
        variables = make_variables(traced, plan, job.seed)
        vocabularies = make_vocabularies(traced, plan, variables, job.seed, training=True)
        transport = Transport(plan, traced, variables, compares=update.lockstep)
        with tf.device(worker_device):
            with tf.device("/device:CPU:0"):
                leased = _leased(job, source) if job.is_dynamic else None
                batches = leased.batches if leased else _static_batches(job, source, replica, update.lockstep)
            backups = _backups(plan, traced, replica) if job.delay_compensation else {}
            values = transport.pull(stamps, backups)
            exchange = Exchange(plan, traced.tables(), variables, vocabularies)
            found = mean_gradients(
                model, batches, values, variables, traced, lambda wanted: exchange.pull(wanted, stamps), job.accumulate
            )
            gradients, seen = found.gradients, masked(values, found.masks) | found.rows
            for transform in transforms_of(job):
                gradients = transform(gradients, seen)
            rows = exchange.push({name: gradients.pop(name) for name in found.rows}) if found.rows else []
            gradients |= {touched(name): mask for name, mask in found.masks.items()}
            guard = _guard(job, found.loss, transport, sum(some is not None for some in rows))
            guard = _lossy(job, transport, replica, guard)
            arrived = transport.push(gradients, found.examples, update.scaled, guard, rows)
        tables = frozenset(piece.name for name in traced.tables() for piece in plan.of(name))
        ledgers = _ledgers(leased, arrived)
        rules = [Rule(ps, job, model, variables, stamp, tables, vocabularies) for ps, stamp in enumerate(stamps)]
        known = variables | vocabularies
        shards = [
            Shard(ps, rule.apply, clocks[ps], stamps[ps], None if ps else counts, known, backups, ledgers.get(ps))
            for ps, rule in enumerate(rules)
        ]
        ops = update.build(shards, [dataclasses.replace(some, ticket=batches.ticket) for some in arrived], replica)
        handout = _handout(leased, ledgers, clocks[0])
        if handout is not None:
            ops = _freeing(ops, handout)
        if replica.index == 0:
            ops.train.extend(v1.get_collection(v1.GraphKeys.UPDATE_OPS))
        stored = _stored(clocks[0], counts) + stored_variables(
            plan, variables, {ps: rule.made for ps, rule in enumerate(rules)}, saving_order(traced)
        )
        if leased:
            stored += _stored_progress(leased.name, ledgers)
        initialise = [_initialise(ps, plan, vocabularies) for ps in range(plan.num_ps)]
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, rebuilt(vocabularies))  # after a restore
        uninitialised = tf.stack([tf.logical_not(v1.is_variable_initialized(s.variable)) for s in stored])
        return Step(
            graph=graph,
            batches=batches,
            ops=ops,
            more=repeated(ops.train, found.examples, plan.num_ps, job.longest_run - 1, job.prefetch_pulls),
            loss=found.loss,
            examples=found.examples,
            global_step=clocks[0],
            counts=counts,
            stored=stored,
            initialise=initialise,
            uninitialised=uninitialised,
            lockstep=update.lockstep,
            is_endless=job.epochs == 0 and not leased,
            leased=leased,
            handout=handout,
        )


def _static_batches(job: Job, source: Source, replica: Replica, lockstep: bool) -> Batches:
    """Who was not declared reads all of the data: each of the others has its own share of it already."""
    share = Share(replica.index, replica.declared) if replica.is_declared() else Share(0, 1)
    endless = lockstep or job.may_run_dry
    return training_batches(source.get(), share, job.batch_size, job.epochs, job.shuffle_buffer, endless)


def _leased(job: Job, source: Source) -> Leased:
    return Leased(reader_of(source.get(), job), job.batch_size)


def _ledgers(leased: Leased | None, arrived: Sequence[Arrived]) -> dict[int, Ledger]:
    """One on each ps that is pushed to."""
    return {some.ps: Ledger(some.ps, leased.count) for some in arrived if some.vectors} if leased else {}


def _handout(leased: Leased | None, ledgers: Mapping[int, Ledger], global_step: Any) -> Handout | None:
    progress = [ledger.progress for ledger in ledgers.values()]
    return Handout(leased.count, progress, global_step) if leased else None


def _freeing(ops: StepOps, handout: Handout) -> StepOps:
    """Who leaves holds nothing any more."""
    leaver = v1.placeholder(tf.int64, [], "leaver") if ops.leaver is None else ops.leaver
    free = handout.free(leaver + 1)
    return dataclasses.replace(ops, leave=tf.group(free, *([ops.leave] if ops.leave else [])), leaver=leaver)


def _initialise(ps: int, plan: Plan, vocabularies: Mapping[str, Vocabulary]) -> tf.Operation:
    """Made when all variables are."""
    there = {piece.name: vocabularies[piece.name] for piece in plan.on(ps) if piece.name in vocabularies}
    with tf.control_dependencies([v.initializer for v in v1.global_variables() if ps_of(v) == ps]):
        return rebuilt(there)


def _backups(plan: Plan, traced: Traced, replica: Replica) -> dict[str, Any]:
    """A second copy of every slice that this replica pulls, beside the first."""
    made = {}
    for piece in plan.slices:
        if piece.variable in traced.pulled():
            with tf.device(ps_device(piece.ps)):
                name = f"ps_train/pulled_{replica.index}/{piece.name}"
                made[piece.name] = _zeros(name, tf.as_dtype(piece.dtype), piece.shape)
    return made


def _stored(global_step: Any, counts: Counts) -> list[Stored]:
    counted = (counts.examples, counts.skipped, counts.dropped)
    return [Stored("global_step", "", global_step), *(Stored(v.op.name, "", v) for v in counted)]


def _stored_progress(name: str, ledgers: Mapping[int, Ledger]) -> list[Stored]:
    """One for all: a checkpoint is of one moment.  By its name it is known how to read it."""
    advice = (
        "which examples were used can be known only with the flags that it was saved with (sharding, batch_size, "
        "shard_examples, shuffle_buffer, seed) and the same data; use these, or another --model_dir."
    )
    key = f"ps_train/progress/{name}"
    return [Stored(key, "", ledger.progress, follower=ps > 0, advice=advice) for ps, ledger in ledgers.items()]


def _guard(job: Job, loss: tf.Tensor, transport: Transport, rows: int) -> Guard:
    """What becomes of gradients that are no finite numbers; see --on_nan.  `rows`: how many vectors are of tables."""
    if job.on_nan == "stop":
        return lambda vectors: finite.stop(loss, vectors)
    otherwise = [nothing(parcel) for parcels in transport.pushed for parcel in parcels]
    otherwise += [np.zeros((), np.float32)] * rows
    return lambda vectors: finite.skip(loss, vectors, otherwise)


def _lossy(job: Job, transport: Transport, replica: Replica, guard: Guard) -> Guard:
    """The same, but that pushes are lost where the job asks for it."""
    share = lost_share(job.inject)
    if not share:
        return guard
    marked = [parcel.header > 0 for parcels in transport.pushed for parcel in parcels]
    seed = derived_seed(job.seed, "drop_push", replica.index)

    def lossy(vectors: list[tf.Tensor]) -> list[tf.Tensor]:
        return lose(share, seed, guard(vectors), marked + [False] * (len(vectors) - len(marked)))

    return lossy


def _clocks(num_ps: int) -> list[Any]:
    """Counters of updates, one on each ps; the first is TensorFlow's global step."""
    clocks = []
    for ps in range(num_ps):
        with tf.device(ps_device(ps)):
            clocks.append(_zeros(f"ps_train/clock_{ps}", tf.int64) if ps else v1.train.create_global_step())
    return clocks


def _counts(replicas: int) -> Counts:
    with tf.device(ps_device(0)):
        return Counts(
            _zeros("ps_train/examples", tf.float64),
            _zeros("ps_train/skipped", tf.int64),
            _zeros("ps_train/dropped", tf.int64),
            _zeros("ps_train/staleness", tf.int64, [replicas, BINS]),
            _zeros("ps_train/waiting", tf.float64, [replicas, 2]),
        )


def _zeros(name: str, dtype: tf.DType, shape: Sequence[int] = ()) -> Any:
    return v1.get_variable(name, shape, dtype, v1.zeros_initializer(), trainable=False, use_resource=True)
