"""Assembles the graph of one replica: batch, pull, forward, backward, push, update.

    step = build_step(job, model, source, traced, plan, Replica(index=0, count=2, declared=2), worker_device)
    session.run(step.ops.train)

Two passes build a model: `trace` ran it once to learn its variables; `backward` builds it again with the pulled values.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config import Job, described
from ps_train.data.leased import Leased
from ps_train.data.shard import Batches, Source, derived_seed
from ps_train.embeddings.known import AFTER_RESTORE
from ps_train.errors import ConfigError
from ps_train.graph.beginning import initialised
from ps_train.graph.handout import Handout
from ps_train.graph.local_state import LocalState, local_state
from ps_train.graph.plan import Plan
from ps_train.graph.rule import Rule
from ps_train.graph.seeded_graph import SeededGraph
from ps_train.graph.state import State, make_state
from ps_train.graph.trace import Traced
from ps_train.graph.transport import Arrived
from ps_train.graph.unroll import Copy, repeated
from ps_train.graph.variables import Stored, stored_variables
from ps_train.graph.vocabulary import rebuilt
from ps_train.graph.work import make_work
from ps_train.model import Model
from ps_train.updates import make_update
from ps_train.updates.base import Counts, Replica, Shard, StepOps
from ps_train.updates.ledger import Ledger

log = logging.getLogger(__name__)


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
      initialise: for each ps, what gives every variable state its initial value.
      uninitialised: bool vector, one entry for each stored variable.
      local: what the model keeps on this worker.
      leased: what the batches are read from, where shards of the data are handed out.
      handout: who holds them; with `leased`.
      begun: int64 scalar on the worker, how many calls that train have begun on all their tasks.
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
    begun: tf.Tensor
    local: LocalState
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
    with SeededGraph(derived_seed(job.seed, "replica", replica.index)).as_default() as graph:
        state = make_state(job, traced, plan, replica, update)
        with tf.device(worker_device):
            work = make_work(job, model, source, traced, plan, replica, update, state)
        ledgers = _ledgers(work.leased, work.arrived)
        rules = _rules(job, model, traced, plan, state)
        ops = update.build(_shards(state, rules, ledgers), work.arrived, replica)
        handout = _handout(work.leased, ledgers, state.clocks[0])
        if handout is not None:
            ops = _freeing(ops, handout)
        stored = _all_stored(plan, state, rules, work.leased, ledgers)
        initialise = [_initialised(ps, job, traced, plan, state) for ps in range(plan.num_ps)]
        v1.add_to_collection(AFTER_RESTORE, rebuilt(state.vocabularies))
        uninitialised = tf.stack([tf.logical_not(v1.is_variable_initialized(s.variable)) for s in stored])
        return Step(
            graph=graph,
            batches=work.batches,
            ops=ops,
            more=repeated(ops.train, work.examples, plan.num_ps, job.longest_run - 1, _ahead(job, traced)),
            loss=work.loss,
            examples=work.examples,
            global_step=state.clocks[0],
            counts=state.counts,
            stored=stored,
            initialise=initialise,
            uninitialised=uninitialised,
            lockstep=update.lockstep,
            is_endless=job.epochs == 0 and not work.leased,
            begun=work.begun,
            leased=work.leased,
            handout=handout,
            local=local_state(),
        )


def _ahead(job: Job, traced: Traced) -> int:
    """How many steps ahead values are pulled.  None where the model assigns some: it would assign older ones."""
    if job.prefetch_pulls and traced.state():
        log.warning(
            "%s has no effect: the model assigns %s itself, which the next step must see",
            described(job, "prefetch_pulls"),
            ", ".join(traced.state()[:3]),
        )
        return 0
    return job.prefetch_pulls


def _initialised(ps: int, job: Job, traced: Traced, plan: Plan, state: State) -> tf.Operation:
    """What is computed from variables follows them."""
    there = {piece.name: state.vocabularies[piece.name] for piece in plan.on(ps) if piece.name in state.vocabularies}
    with tf.control_dependencies([initialised(ps, traced, plan, job.seed)]):
        return rebuilt(there)


def _rules(job: Job, model: Model, traced: Traced, plan: Plan, state: State) -> list[Rule]:
    """One for each ps."""
    tables = frozenset(piece.name for name in traced.tables() for piece in plan.of(name))
    return [
        Rule(ps, job, model, state.variables, clock, tables, state.vocabularies)
        for ps, clock in enumerate(state.clocks)
    ]


def _shards(state: State, rules: Sequence[Rule], ledgers: Mapping[int, Ledger]) -> list[Shard]:
    known = {**state.variables, **state.vocabularies}
    return [
        Shard(
            ps,
            rule.apply,
            state.clocks[ps],
            state.stamps[ps],
            None if ps else state.counts,
            known,
            state.backups,
            ledgers.get(ps),
        )
        for ps, rule in enumerate(rules)
    ]


def _all_stored(
    plan: Plan,
    state: State,
    rules: Sequence[Rule],
    leased: Leased | None,
    ledgers: Mapping[int, Ledger],
) -> list[Stored]:
    made = {ps: rule.made for ps, rule in enumerate(rules)}
    stored = _stored(state.clocks, state.counts)
    stored += stored_variables(plan, state.variables, made)
    return stored + (_stored_progress(leased.name, ledgers) if leased else [])


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


def _stored(clocks: Sequence[Any], counts: Counts) -> list[Stored]:
    """The clocks of all ps begin with the global step of the checkpoint: rates are computed from them."""
    counted = (counts.examples, counts.skipped, counts.dropped)
    steps = [Stored("global_step", "", clock, follower=ps > 0) for ps, clock in enumerate(clocks)]
    return [*steps, *(Stored(v.op.name, "", v) for v in counted)]


def _stored_progress(name: str, ledgers: Mapping[int, Ledger]) -> list[Stored]:
    """One for all: a checkpoint is of one moment.  By its name it is known how to read it."""
    advice = (
        "which examples were used can be known only with the flags that it was saved with (sharding, batch_size, "
        "shard_examples, shuffle_buffer, seed) and the same data; use these, or another --model_dir."
    )
    key = f"ps_train/progress/{name}"
    return [Stored(key, "", ledger.progress, follower=ps > 0, advice=advice) for ps, ledger in ledgers.items()]
