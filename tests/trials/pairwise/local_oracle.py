"""The run of a row with local steps, in numpy: the rounds of `tests/support/clusters/local_rounds.py`.

A round has `local_steps` steps, and fewer before a multiple of --save_steps, before --max_steps, where the input ends,
and where the shards end that a worker holds.  The slots of the optimizer are not compared: they are the workers' own,
and no checkpoint has them.  Only those of a table's rows are common: a round begins with them, and what all workers add
to them counts.  Here they are values as others, named `TABLE:SLOT`.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tests.support.clusters import local_rounds
from tests.support.clusters.local_rounds import Batch, Descent, LocalRounds, Made, Outer, Values, Worker
from tests.trials.pairwise.factors import RATE, SAVE_STEPS, STEPS, Row
from tests.trials.pairwise.model import IDS
from tests.trials.pairwise.oracle import TABLES, Optimizer, Oracle, Push, rows_used

_SHARD = 2
"""Batches in a shard."""
_ALPHA = 0.9
"""The part of its distance from the mean of all workers that the ps give in, under `elastic`."""


class LocalOracle(Oracle):
    """The run of a row that has local steps; `slots` are those of the outer optimizer, and of rows."""

    def __init__(self, row: Row) -> None:
        super().__init__(row)
        self._inputs = [_Input(self._pushes_of(worker), self.labels) for worker in range(row.num_workers)]
        self._outer = _outer_of(row)
        values = dict(self.values)
        if row.has_local_rows:
            values |= {f"{table}:{name}": slot for table in TABLES for name, slot in self.slots[table].items()}
        elif row.table != "none":  # its rows stay on the ps
            self._tables = {name: values.pop(name) for name in TABLES}
            self._table_slots = {name: self.slots[name] for name in TABLES}
        self._used: set[int] = set()
        self._own_uses, self._uses_of_workers = np.zeros(IDS, int), list[np.ndarray]()
        self._rounds = _Rounds(
            self,
            values,
            self._inputs,
            self._new_inner,
            self._outer,
            rate=lambda step: RATE,
            alpha=min(1.0, _ALPHA / row.num_workers),
            fresh=row.inner_state == "fresh",
            gradient=self._gradients_at,
        )
        self._shards = _Shards(0) if row.sharding == "dynamic" else None
        self._given = 0  # the step that all rounds would have reached if no batch had been left out
        self._note()

    def _new_inner(self) -> _Inner:
        step = self._rounds.step if hasattr(self, "_rounds") else 0
        return _Inner(self.row, lambda: (self.values, self._used), is_start=step == 0)

    def run(self, until: int, planned: int = 0) -> int:
        """Makes rounds up to a global step; returns the global step, which is less if the input has ended."""
        while self.step < until and not all(one.has_ended for one in self._inputs):
            self._make_round(until if self.row.is_stale else max(until, planned))
        return self.step

    def next_skipped(self) -> int:
        """Returns the number of batches that the next round leaves out, if it leaves out all of them."""
        names = ("values", "slots", "step", "skipped", "_uses", "_last_use", "_clock")
        before = copy.deepcopy({name: getattr(self, name) for name in names})
        self._make_round(self.step + SAVE_STEPS)
        left_out = self.skipped - before["skipped"] if self.step == before["step"] else 0
        vars(self).update(before)
        return left_out

    def start_again(self) -> None:
        """Starts all processes again: workers have new slots, and the values of the ps."""
        row, lockstep = self.row, self.row.update == "sync"
        for number, worker in enumerate(self._rounds.workers):
            if row.sharding == "static":
                self._inputs[number].pushes = self._pushes_of(number)
            worker.begin_anew(self._rounds.values, self.step)
        self._given = self.step
        self._hold_none()
        if lockstep and row.event == "kill_worker" and row.num_workers == 1:
            # Nothing of the round with which it announces itself is used.
            self._inputs[0].taken.clear()
            self._rounds.join(0, self._length(STEPS if row.ending == "max_steps" else self.step + SAVE_STEPS))
            if row.sharding == "dynamic":
                self._inputs[0].give_back()
                self._hold_none()
            self._note()

    def _hold_none(self) -> None:
        """Gives back all shards; what is left of one is a shard then."""
        if self._shards is not None:
            self._shards = _Shards(self._inputs[0].count)

    def _make_round(self, until: int) -> None:
        """Makes a round, of one worker after the other if it is not known which of them come first."""
        row, rounds = self.row, self._rounds
        for one in self._inputs:
            one.taken.clear()
        if row.has_local_rows:
            self._forget_expired()
        if row.update == "sync":
            rounds.together([self._length(until)])
        elif row.is_stale:
            for worker, one in enumerate(self._inputs):
                if rounds.step < until and not one.has_ended:
                    rounds.alone(worker, [min(row.local_steps, until - rounds.step)])
        else:
            length = self._length(until)
            self._given += length
            rounds.alone(0, [length])
        self._note()

    def _length(self, until: int) -> int:
        """Returns the number of steps of the next round of a single worker, or of all of them in lockstep."""
        row, cut = self.row, self.step - self.step % SAVE_STEPS + SAVE_STEPS
        if self._given >= min(until, cut) or row.update == "sync":
            self._given = self.step
        wanted = min(row.local_steps, cut - self._given) if row.update == "sync" else row.local_steps
        if self._shards is None or row.num_workers > 1:
            return min(wanted, min(until, cut) - self._given)
        length = min(self._shards.take(wanted), min(until, cut) - self._given)
        self._shards.use(length)
        return length

    def _note(self) -> None:
        rounds = self._rounds
        self.step, self.skipped = rounds.step, rounds.skipped
        self.values = {name: value for name, value in rounds.values.items() if ":" not in name}
        self.slots = {name: _slots_of(self._outer, name, value) for name, value in self.values.items()}
        if self.row.has_local_rows:
            for table in TABLES:
                self.slots[table] = {name: rounds.values[f"{table}:{name}"] for name in self._optimizer.slots}
        elif self.row.table != "none":
            self.values, self.slots = self.values | self._tables, self.slots | self._table_slots

    def begin_round(self) -> None:
        """A worker begins a round."""
        self._own_uses = np.zeros(IDS, int)
        self._uses_of_workers.append(self._own_uses)

    def end_round(self, steps: int) -> None:
        """The ps have applied a round of some steps."""
        uses, self._uses_of_workers = np.sum(self._uses_of_workers, 0), []
        if self.row.has_local_rows and steps:
            self._clock += steps
            self._uses += np.minimum(uses, steps)  # what several workers have used is not counted more often
            self._last_use[uses > 0] = self._clock

    def _pushes_of(self, worker: int) -> Iterator[Push]:
        """Yields the batches of a worker."""
        return (push for [push] in self._pushes()) if self.row.sharding == "dynamic" else self._share(worker)

    def _gradients_at(self, batch: Batch, values: Values) -> Values:
        numbers, row = batch.features.tolist(), self.row
        self.values = values
        if row.table != "none" and not row.has_local_rows:
            self.values, self.slots = values | self._tables, self._table_slots
            self._forget_expired()
        gradients, self._used = self._gradients(numbers, self._rows_of([numbers]))
        is_used = all(np.isfinite(gradient).all() for gradient in gradients.values())
        if is_used and row.has_local_rows:
            self._own_uses[list({int(self.ids[number]) for number in numbers})] += 1
        elif row.table != "none" and not row.has_local_rows:
            of_rows = {name: gradients.pop(name) for name in TABLES}
            if is_used:
                self._apply_alone(numbers, of_rows, self._used)
        return gradients

    def _uses_before(self, number: int) -> int:
        return int(self._uses[number] + self._own_uses[number])

    def _pulled(self, name: str) -> np.ndarray:
        if name in TABLES and not self.row.has_local_rows:
            return super()._pulled(name)
        return self.values[name]  # a worker's own values, which have not travelled


class _Input:
    """The batches of a worker; at the end those without examples.

    Args:
      pushes: the examples of each batch.
      labels: the labels of all examples.

    Attributes:
      pushes: the batches that are left.
      taken: batches that were taken since somebody cleared the list.
      has_ended: whether there are no more.
      count: the number of batches that were taken, and not given back.
    """

    def __init__(self, pushes: Iterator[Push], labels: np.ndarray) -> None:
        self.pushes, self._labels = pushes, labels
        self.taken: list[Push] = []
        self.has_ended, self.count = False, 0

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        push = next(self.pushes, [])
        self.has_ended, self.count = not push, self.count + bool(push)
        self.taken.append(push)
        numbers = np.array(push, int)
        return Batch(numbers, self._labels[numbers])

    def give_back(self) -> None:
        """Takes back what was taken."""
        taken = [push for push in self.taken if push]
        self.pushes, self.count = itertools.chain(taken, self.pushes), self.count - len(taken)
        self.taken, self.has_ended = [], False


class _Shards:
    """The shards that a single worker holds, of the two that there are: it takes one more when it has too few batches.

    One that is used up becomes free at the next look, after the choice of another one.

    Args:
      used: the number of batches that were used before.
    """

    def __init__(self, used: int) -> None:
        self._left: list[int] = []
        self._next, self._finished = _SHARD - used % _SHARD, 0

    def take(self, wanted: int) -> int:
        """Returns how many of the wanted batches are held now."""
        if wanted > sum(self._left) and len(self._left) + self._finished < 2:
            self._acquire()
        self._finished = 0
        if not self._left:
            self._acquire()
        return min(wanted, sum(self._left))

    def _acquire(self) -> None:
        self._left.append(self._next)
        self._next = _SHARD

    def use(self, count: int) -> None:
        """Uses the first batches that are held."""
        for _ in range(count):
            self._left[0] -= 1
            if not self._left[0]:
                del self._left[0]
                self._finished += 1


class _Inner:
    """The optimizer of a worker.

    Args:
      row: names it.
      present: returns the values at which the gradients are, and the rows that the batch has used.
      is_start: whether the first step is one from the initial values.
    """

    def __init__(self, row: Row, present: Callable[[], tuple[Values, set[int]]], is_start: bool) -> None:
        self._optimizer, self._present, self._is_start = Optimizer.of(row), present, is_start
        self._slots: dict[str, dict[str, np.ndarray]] = {}

    def moves(self, gradients: Values, rate: float) -> Values:
        """What a step subtracts from the values."""
        moved, (now, used) = {}, self._present()
        self._optimizer.begin()
        for name, gradient in gradients.items():
            if name in TABLES:
                slots = {slot: now[f"{name}:{slot}"].copy() for slot in self._optimizer.slots}
            else:
                slots = self._slots.setdefault(name, self._optimizer.make_slots(now[name]))
                if not self._is_start:
                    self._optimizer.go_on_from(now[name], slots)
            new, rows = now[name].copy(), rows_used(name, used, len(now[name]))
            self._optimizer.apply(new, slots, rows, gradient[rows])
            moved[name] = now[name] - new
            if name in TABLES:
                moved |= {f"{name}:{slot}": now[f"{name}:{slot}"] - value for slot, value in slots.items()}
        self._is_start = False
        return moved


class _Rounds(LocalRounds):
    def __init__(self, oracle: LocalOracle, *args: Any, **kwargs: Any) -> None:
        self._oracle = oracle
        super().__init__(*args, **kwargs)

    def _steps(self, worker: Worker, length: int) -> Made:
        self._oracle.begin_round()
        return super()._steps(worker, length)

    def _exchange(self, workers: Sequence[Worker], weights: Sequence[float], examples: int, steps: int) -> None:
        """Rows move by the mean of the differences, or each by its part, and their slots by the sum."""
        row, before, step = self._oracle.row, self.values, self.step
        parts = [1.0 / row.num_workers] * len(workers)
        parts = weights if row.update == "sync" and not row.has_lone_rows else parts
        moved = {
            name: sum((one.now[name] - one.start[name]) * (1.0 if ":" in name else part) for one, part in pairs)
            for pairs in [[*zip(workers, parts, strict=True)]]
            for name in before
            if name in TABLES or ":" in name
        }
        super()._exchange(workers, weights, examples, steps)
        if moved:
            self.values = {**self.values, **{name: before[name] + one for name, one in moved.items()}}
            for worker in workers:
                worker.take(self.values, self.step)
        self._oracle.end_round(self.step - step)

    def join(self, index: int, length: int) -> None:
        """A round of which nothing is used; the worker keeps its slots, and under `elastic` its values."""
        worker = self.workers[index]
        self._steps(worker, length)
        if self._outer is None:
            self._meet([worker], [1.0])
        else:
            worker.take(self.values, self.step)
        if self._fresh:
            worker.forget_slots()


class _Nesterov(local_rounds.Nesterov):
    def slots_of(self, name: str) -> Mapping[str, np.ndarray | None]:
        return {"momentum": self._momentum.get(name)}


class _DelayedNesterov(local_rounds.DelayedNesterov):
    def slots_of(self, name: str) -> Mapping[str, np.ndarray | None]:
        some = [one[name] for one in self._pseudo_gradients]
        return {"momentum": self._momentum.get(name), "sum": np.sum(some, 0) if some else None}


def _outer_of(row: Row) -> Outer | None:
    """Returns the outer optimizer with the papers' arguments; None under elastic averaging."""
    is_mean = row.update == "sync"
    if row.outer_optimizer == "elastic":
        return None
    if row.outer_optimizer == "nesterov":
        return _Nesterov() if is_mean else _DelayedNesterov(row.num_workers)
    return Descent(1.0 if is_mean else 1.0 / row.num_workers)


def _slots_of(outer: Outer | None, name: str, value: np.ndarray) -> dict[str, np.ndarray]:
    found = outer.slots_of(name) if isinstance(outer, (_Nesterov, _DelayedNesterov)) else {}
    return {slot: np.zeros_like(value) if one is None else one for slot, one in found.items()}


def oracle_of(row: Row) -> Oracle:
    """Returns the oracle of a row."""
    return LocalOracle(row) if row.has_local_steps else Oracle(row)
