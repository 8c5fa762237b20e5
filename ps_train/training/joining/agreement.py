"""What all tasks of a job agree on before any of them builds its step: the job, the racks, the placement of variables.

agreed = agree(prepared, joined, planned=role.planned)    # the training thread, once
confirm(prepared, agreed, stores[0])                      # in every session: a restarted ps has lost the records
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.topology import Topology
from ps_train.engine.variables.plan import Plan
from ps_train.training.joining.found_racks import confirm_racks, found_racks
from ps_train.training.joining.join import Joined
from ps_train.training.joining.measured_weights import MeasuredWeights, confirm_weights, measured_weights
from ps_train.training.joining.prepare import Prepared
from ps_train.training.joining.told_by_chief import agree_with_chief

log = logging.getLogger(__name__)


class Agreed(NamedTuple):
    """What a task and the others of its job have agreed on.

    Attributes:
      plan: placement of the variables on the ps.
      topology: the racks of the workers; FLAT without racks.
      weights: the weights of the ps that the chief has measured, and why.
      pushers: names of those whose pushes the ps see: the workers, or the racks.
      declared: number of them at the start.
    """

    plan: Plan
    topology: Topology
    weights: MeasuredWeights
    pushers: tuple[str, ...]
    declared: int


def agree(prepared: Prepared, joined: Joined, planned: Callable[[Plan, MeasuredWeights], None]) -> Agreed:
    """Compares the job with the chief's, and finds what depends on other tasks.

    Args:
      prepared: the task.
      joined: its connections.
      planned: called with the plan as soon as it is made: the racks may be told minutes later.

    Raises:
      UnreachableError: the chief or a worker has not told its part in time.
      RefusedError: the task differs from the chief's job, or has other weights or racks than the ps know.
    """
    cluster, task, store = prepared.cluster, str(prepared.task), joined.stores[0]
    if not prepared.is_chief:
        agree_with_chief(store, prepared.description, cluster, task, prepared.job.startup_timeout_secs)
        log.info("%s joined the job of the chief, %s", task, cluster.chief)
    weights = measured_weights(prepared, joined.stores, joined.resolver.current().ps)
    plan = prepared.plan(weights.weights)
    planned(plan, weights)
    topology = found_racks(prepared, joined.stores)
    if topology.is_flat:
        return Agreed(plan, topology, weights, tuple(map(str, cluster.possible_replicas())), cluster.num_replicas)
    return Agreed(plan, topology, weights, tuple(f"rack {name}" for name in topology.names), len(topology.names))


def confirm(prepared: Prepared, agreed: Agreed, store: KeyValueStore) -> None:
    """Compares what was agreed on with the records of the job; the chief writes those again that are lost.

    Args:
      prepared: the task.
      agreed: what its step was built by.
      store: of ps 0.

    Raises:
      RefusedError: they differ, because a new chief has found something else.
    """
    if prepared.is_chief:
        store.set(records.DESCRIPTION, json.dumps(prepared.description))
    confirm_weights(prepared, agreed.weights, store)
    confirm_racks(prepared, agreed.topology, store)
