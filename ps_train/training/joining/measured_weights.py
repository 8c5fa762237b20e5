"""Weights of the ps that follow their measured speed (`--ps_weights=auto`): the chief measures, all tasks agree.

    found = measured_weights(prepared, stores, addresses)      # another worker waits for the chief
    confirm_weights(prepared, found, stores[0])                # in every session

The weights are a record on every ps.  They are measured when a job starts on ps without a record, and do not change
while one of these ps lives: every graph of the job is built by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from ps_train.base.errors import RefusedError, cause_of, shown
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.addresses.ports import is_local
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import patient, retry_until
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.sessions.ps_speed import bytes_per_sec, weights_of
from ps_train.config.job import Job
from ps_train.config.validators import AUTO_WEIGHTS, parse_weights
from ps_train.engine.variables.plan import human_bytes
from ps_train.training.joining.prepare import Prepared
from ps_train.training.joining.told_by_chief import told_by_chief

_EVEN = "even"


class MeasuredWeights(NamedTuple):
    """Weights of the ps that were measured.

    Attributes:
      text: their record; "" if the job gives them, "even" for even ones.
      reason: a line about how they were found; "" if another task has found them.
      weights: the numbers, empty for even ones; None for those of the job.
    """

    text: str = ""
    reason: str = ""
    weights: tuple[float, ...] | None = None


def measured_weights(
    prepared: Prepared, stores: Sequence[KeyValueStore], addresses: Sequence[Address]
) -> MeasuredWeights:
    """Returns the weights that the chief has measured, where the job asks for that.

    Args:
      prepared: the task, which has joined.
      stores: of all ps.
      addresses: the present addresses of the ps.

    Raises:
      UnreachableError: the chief tells no weights.
      RefusedError: a ps has a record of weights that are not for these ps.
    """
    if prepared.job.ps_weights != AUTO_WEIGHTS:
        return MeasuredWeights()
    if prepared.is_chief:
        text, reason = _of_chief(stores, addresses, prepared.job)
    else:
        text, reason = _of_job(stores[0], prepared), ""
    return MeasuredWeights(text, reason, _parsed(text, len(stores)))


def confirm_weights(prepared: Prepared, own: MeasuredWeights, store: KeyValueStore) -> None:
    """Compares the weights of this task's graph with those of the job; the chief writes them again if they are lost.

    Args:
      prepared: the task.
      own: its weights.
      store: of ps 0.

    Raises:
      RefusedError: they differ, because a new chief has measured again.
    """
    if not own.text:
        return
    found = _written(own.text, store, prepared.job) if prepared.is_chief else _of_job(store, prepared)
    if found != own.text:
        raise RefusedError(
            f"the ps have the weights {found} now, but {prepared.task} has placed its variables by {own.text}: start "
            "it again."
        )


def _of_chief(stores: Sequence[KeyValueStore], addresses: Sequence[Address], job: Job) -> tuple[str, str]:
    """Returns the weights that a ps still has, or those that are measured now, and why; writes them on every ps."""
    told = [text for store in stores if (text := _answer(lambda one: one.get(records.PS_WEIGHTS), store, job))]
    text, reason = (told[0], "") if told else _measured(addresses)
    for store in stores:
        _written(text, store, job)
    return text, reason


def _of_job(store: KeyValueStore, prepared: Prepared) -> str:
    timeout_secs = prepared.job.startup_timeout_secs
    return told_by_chief(store, records.PS_WEIGHTS, "told the weights of the ps", prepared.cluster, timeout_secs)


def _measured(addresses: Sequence[Address]) -> tuple[str, str]:
    """Measures each ps; one on this host counts as the fastest, because it is not that fast for other workers."""
    rates: list[float | None] = []
    try:
        for address in addresses:
            rates.append(None if is_local(address.host) else bytes_per_sec(address.target))
    except tf.errors.OpError as error:
        return _EVEN, (f"ps_weights=even: ps:{len(rates)} could not be measured: {cause_of(error)}")
    text = weights_of(rates) or _EVEN
    shown_rates = ", ".join(
        f"ps:{index} {'is on this host' if rate is None else f'{human_bytes(rate)}/s'}"
        for index, rate in enumerate(rates)
    )
    return text, f"ps_weights={text}: measured {shown_rates}"


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
    raise RefusedError(f"ps 0 has the record {shown(text)} instead of weights for {num_ps} ps.")
