"""Weights of the ps that follow their measured speed (`--ps_weights=auto`): the chief measures, all tasks agree.

    prepared = with_measured_weights(prepared)          # before the task joins; another worker waits for the chief

The weights are a record on every ps.  They are measured when a job starts on ps without a record, and do not change
while one of these ps lives: every graph of the job is built by them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from ps_train.base.errors import RefusedError, cause_of, shown
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.addresses.ports import is_local
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import connect_all_ps, patient, retry_until
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.preparing import told_as_preparing
from ps_train.cluster.sessions.ps_speed import bytes_per_sec, weights_of
from ps_train.config.job import Job
from ps_train.config.validators import AUTO_WEIGHTS, parse_weights
from ps_train.engine.variables.plan import human_bytes
from ps_train.training.loop.session import told_by_chief
from ps_train.training.tasks.prepare import MeasuredWeights, Prepared, plan_of

_EVEN = "even"


def with_measured_weights(prepared: Prepared) -> Prepared:
    """Returns the task with the plan of the measured weights, where the job asks for them.

    Raises:
      UnreachableError: a ps does not answer in time, or the chief tells no weights.
      RefusedError: a ps is not of this job, or has a record of weights that are not for these ps.
    """
    job, task = prepared.job, prepared.task
    if job.ps_weights != AUTO_WEIGHTS:
        return prepared
    with told_as_preparing(job, task):
        resolver = ClusterResolver(job)
        stores = connect_all_ps(resolver, task, job.shared_fields(), job.startup_timeout_secs)
        try:
            found = _of_chief(stores, resolver.current().ps, job) if prepared.is_chief else _of_job(stores[0], prepared)
        finally:
            for store in stores:
                store.close()
    weights = _parsed(found.text, len(stores))
    plan = plan_of(job, prepared.variables.specs(), prepared.cluster, prepared.topology, weights)
    return dataclasses.replace(prepared, plan=plan, weights=found)


def agree_on_weights(prepared: Prepared, store: KeyValueStore) -> None:
    """Compares the weights of this task's graph with those of the job; the chief writes them again if they are lost.

    Args:
      prepared: the task.
      store: of ps 0.

    Raises:
      RefusedError: they differ, because a new chief has measured again.
    """
    if prepared.weights is None:
        return
    own = prepared.weights.text
    found = _written(own, store, prepared.job) if prepared.is_chief else _of_job(store, prepared).text
    if found != own:
        raise RefusedError(
            f"the ps have the weights {found} now, but {prepared.task} has placed its variables by {own}: start it "
            "again."
        )


def _of_chief(stores: Sequence[KeyValueStore], addresses: Sequence[Address], job: Job) -> MeasuredWeights:
    """Returns the weights that a ps still has, or else those that are measured now; writes them on every ps."""
    told = [text for store in stores if (text := _answer(lambda one: one.get(records.PS_WEIGHTS), store, job))]
    found = MeasuredWeights(told[0], "") if told else _measured(addresses)
    for store in stores:
        _written(found.text, store, job)
    return found


def _of_job(store: KeyValueStore, prepared: Prepared) -> MeasuredWeights:
    timeout_secs = prepared.job.startup_timeout_secs
    what = "told the weights of the ps"
    return MeasuredWeights(told_by_chief(store, records.PS_WEIGHTS, what, prepared.cluster, timeout_secs), "")


def _measured(addresses: Sequence[Address]) -> MeasuredWeights:
    """Measures each ps; one on this host counts as the fastest, because it is not that fast for other workers."""
    rates: list[float | None] = []
    try:
        for address in addresses:
            rates.append(None if is_local(address.host) else bytes_per_sec(address.target))
    except tf.errors.OpError as error:
        return MeasuredWeights(_EVEN, f"ps_weights=even: ps:{len(rates)} could not be measured: {cause_of(error)}")
    text = weights_of(rates) or _EVEN
    shown_rates = ", ".join(
        f"ps:{index} {'is on this host' if rate is None else f'{human_bytes(rate)}/s'}"
        for index, rate in enumerate(rates)
    )
    return MeasuredWeights(text, f"ps_weights={text}: measured {shown_rates}")


def _written(text: str, store: KeyValueStore, job: Job) -> str:
    """Writes weights to a ps that has none; returns those that it has then."""
    return _answer(lambda one: one.compare_and_set(records.PS_WEIGHTS, "", text), store, job) or text


def _answer(call: Callable[[KeyValueStore], str], store: KeyValueStore, job: Job) -> str:
    found: str = retry_until(lambda: patient(lambda: call(store)), job.startup_timeout_secs, store.name)
    return found


def _parsed(text: str, num_ps: int) -> tuple[float, ...]:
    try:
        weights = parse_weights("" if text == _EVEN else text)
    except ValueError:
        weights = (0.0,)
    if text == _EVEN or (len(weights) == num_ps and all(weights)):
        return weights
    raise RefusedError(f"ps 0 has the record {shown(text)} in the place of weights for {num_ps} ps.")
