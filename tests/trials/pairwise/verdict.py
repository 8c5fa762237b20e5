"""Has a row's run ended with the right numbers?

    wrong = faults(row, run, read_values(run.checkpoint))         # [] where all is right

Values and slots of optimizers are compared with the oracle's.  An error counts relative to how far the oracle has moved
the variable, so that one step too many or too few is always larger than the tolerance of 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ps_train.embeddings import positions_of
from tests.trials.pairwise.factors import EXPIRE_STEPS, RESUME_STEP, STEPS, Row
from tests.trials.pairwise.job import Run
from tests.trials.pairwise.local_oracle import oracle_of
from tests.trials.pairwise.model import IDS
from tests.trials.pairwise.oracle import TABLES, Oracle

Values = Mapping[str, np.ndarray]

SLOT_KEYS: Mapping[str, Mapping[str, str]] = {
    "sgd": {},
    "momentum": {"momentum": "Momentum"},
    "adam": {"m": "Adam", "v": "Adam_1"},
    "lazy_adam": {"m": "Adam", "v": "Adam_1"},
    "adagrad": {"accumulator": "Adagrad"},
    "rowwise_adagrad": {"accumulator": "RowWiseAdagrad"},
    "ftrl": {"accumulator": "Ftrl", "linear": "Ftrl_1"},
    "rmsprop": {"rms": "RMSProp", "momentum": "RMSProp_1"},
}
"""Optimizer to the oracle's name of a slot, to its name in a checkpoint."""

OUTER_KEYS: Mapping[str, Mapping[str, str]] = {
    "sync": {"momentum": "outer_momentum"},
    "async": {"momentum": "outer_momentum", "sum": "outer_sum"},
    "bounded": {"momentum": "outer_momentum", "sum": "outer_sum"},
}
"""The same for the outer optimizer `nesterov`, by the update mode."""


def tolerance_of(row: Row, name: str) -> float:
    """Returns the tolerance of a variable, relative to how far it has moved.

    The gradient of `count` travels exactly.  What local steps have changed does not: int8 rounds it to a step of the
    largest value of its block.  Under elastic averaging it is the distance from what was pulled, which a codec of pulls
    has rounded too: int8 now and then the second largest value of a block by a whole step.
    """
    if row.is_exact:
        return 1e-3
    is_rounded = "int8" in row.codecs or (row.outer_optimizer == "elastic" and row.codecs[0] != "none")
    if name.startswith("count") and not (row.has_local_steps and is_rounded):
        return 0.03
    if "int8" in row.codecs:
        # A gradient below a step of int8 comes as none or as a whole step, and Adam moves less by what varies.
        is_moved_by_pulls = row.outer_optimizer == "elastic" and row.codecs[0] == "int8"
        return 0.5 if "adam" in row.optimizer or is_moved_by_pulls else 0.2
    return 0.15 if "/" in name else 0.08


def faults(row: Row, run: Run, values: Values) -> list[str]:
    """Returns what is not as it must be."""
    oracle = oracle_of(row)
    found = _run(oracle, run)
    if found:
        return found
    initial = oracle_of(row)
    for name, want in oracle.values.items():
        if name == "emb":
            found += _faults_of_table(oracle, initial, values)
        elif name == "emb/default" and row.table != "admit":
            continue  # no example gets it
        else:
            found += _compared(row, name, values[name].reshape(want.shape), want, initial.values[name])
            for slot, key in _slots(oracle, name).items():
                got, slot_want = values[f"{name}/{key}"], oracle.slots[name][slot]
                told = f"{name}/{key}"
                found += _compared(row, told, got.reshape(slot_want.shape), slot_want, initial.slots[name][slot])
    return found


def _slots(oracle: Oracle, name: str) -> Mapping[str, str]:
    row = oracle.row
    is_outer = row.has_local_steps and name not in TABLES
    keys = OUTER_KEYS[row.update] if is_outer else SLOT_KEYS[row.optimizer]
    return {slot: keys[slot] for slot in oracle.slots[name]}


def _run(oracle: Oracle, run: Run) -> list[str]:
    """Makes the run's updates; returns what is wrong with its steps."""
    row = oracle.row
    planned = STEPS if row.ending == "max_steps" else 10**9
    if row.event != "none":
        right = {"kill_worker": run.held_at, "kill_job": run.saved, "kill_ps": run.saved}.get(row.event, RESUME_STEP)
        if row.event == "kill_worker" and row.num_workers > 1:
            right = run.restarted_at  # the chief lives
        if run.restarted_at != right:
            return [f"went on at step {run.restarted_at}, not {right}"]
        if run.restarted_at is not None:
            first = RESUME_STEP if row.event in ("resume", "rescale") else planned
            oracle.run(run.restarted_at, first)
            oracle.start_again()
    if row.ending == "early_stop":
        assert run.early_stop is not None
        if run.steps > run.early_stop and row.num_workers == 1:
            return [f"ended at step {run.steps}: early_stop was due at step {run.early_stop}"]
        last = oracle.run(run.steps, planned)
    else:
        last = oracle.run(planned)
    if last != run.steps:
        return [f"ended at step {run.steps}, not {last}"]
    if row.has_equal_examples:  # float16 may leave out the first of them
        return []
    right = {oracle.skipped, oracle.skipped + (oracle.next_skipped() if row.ending == "early_stop" else 0)}
    return [] if run.skipped in right else [f"skipped {run.skipped} gradients, not {oracle.skipped}"]


def _faults_of_table(oracle: Oracle, initial: Oracle, values: Values) -> list[str]:
    row = oracle.row
    if row.table == "rows":
        places = dict(zip(range(IDS), positions_of(np.arange(IDS), IDS).tolist(), strict=True))
    else:
        used, keys = values["emb/used"], values["emb/keys"][:, 0]
        places = {int(keys[place]): place for place in np.flatnonzero(used[:, 0] > 0)}
        if row.table == "expire":
            clock = int(values["emb/clock"].max())
            places = {number: place for number, place in places.items() if clock - used[place, 1] < EXPIRE_STEPS}
    if {*places} != oracle.known_ids:
        return [f"emb has rows for {sorted(places)}, not for {sorted(oracle.known_ids)}"]
    numbers = sorted(places)
    found: list[str] = []
    where = [places[number] for number in numbers]
    found += _compared(row, "emb", values["emb"][where], oracle.values["emb"][numbers], initial.values["emb"][numbers])
    for slot, key in _slots(oracle, "emb").items():
        want, begin = oracle.slots["emb"][slot][numbers], initial.slots["emb"][slot][numbers]
        found += _compared(row, f"emb/{key}", values[f"emb/{key}"][where].reshape(want.shape), want, begin)
    return found


def _compared(row: Row, name: str, got: np.ndarray, want: np.ndarray, begin: np.ndarray) -> list[str]:
    if not np.isfinite(got).all():
        return [f"{name} is not finite: {got.tolist()}"]
    moved = max(float(np.abs(want - begin).max(initial=0)), 1e-3)
    error = float(np.abs(got - want).max(initial=0)) / moved
    if error <= tolerance_of(row, name):
        return []
    at = np.unravel_index(np.argmax(np.abs(got - want)), want.shape)
    return [f"{name}{[int(i) for i in at]} is {got[at]:.6g}, not {want[at]:.6g} (off by {error:.2g} of its way)"]
