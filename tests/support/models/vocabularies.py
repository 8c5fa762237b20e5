"""A model of an open vocabulary, and what training does to it, in plain Python and numpy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, embeddings
from tests.support.models.small import Linear
from tests.support.models.tables import NumpyRule

DIMENSION = 3
DIRECTION = np.array([1.0, -0.5, 0.25], np.float32)
FRESH = 0.25


class Visits(Linear):
    """Examples of `width` ids of one open vocabulary, whose rows are added up; nothing else is learned.

    Args:
      ids: [examples, width]; any integer, or strings.
      declared: arguments of the lookup.
    """

    def __init__(self, ids: np.ndarray, **declared: Any) -> None:
        self.ids = ids
        self.declared = {"dimension": DIMENSION, "initializer": FRESH, **declared}

    def data(self, split, data_dir):
        random = np.random.default_rng(6)
        return Arrays(self.ids, random.normal(size=len(self.ids)).astype(np.float32))

    def forward(self, features, training):
        rows = embeddings.lookup("users", features, "sum", **self.declared)
        return tf.linalg.matvec(rows, tf.constant(DIRECTION))

    def metrics(self, outputs, labels):
        return {"mean": v1.metrics.mean(outputs)}

    def predictions(self, outputs):
        return {"outputs": outputs}


@dataclasses.dataclass
class Entry:
    """What is known of an id.  `state`: which row of the numpy optimizer it has; never used for another id."""

    row: int
    uses: int
    last: int
    state: int = -1


class Replay:
    """The same training, an id after the other, for a vocabulary of one heap on one ps."""

    def __init__(
        self,
        optimizer: str,
        rate: float,
        capacity: int,
        admit_after: int = 1,
        expire_steps: int | None = None,
        states: int = 500,
    ) -> None:
        self.capacity, self.admit_after, self.expire_steps = capacity, admit_after, expire_steps
        self.table, self.default = np.full((states, DIMENSION), FRESH), np.full((1, DIMENSION), FRESH)
        self.rule, self.default_rule = (NumpyRule(optimizer, rate, some.shape) for some in (self.table, self.default))
        self.known: dict[Any, Entry] = {}
        self.waiting: dict[Any, Entry] = {}
        self.free = [list(range(capacity))[::-1] for _ in range(2)]
        self.states, self.made = 0, 0
        self.evicted = self.expired = 0

    def alive(self, entry: Entry | None) -> bool:
        return entry is not None and (self.expire_steps is None or self.made - entry.last < self.expire_steps)

    def sights(self, name: Any) -> int:
        entry = self.waiting.get(name)
        return 1 + (entry.uses if entry is not None and self.alive(entry) else 0)

    def vector(self, name: Any, training: bool) -> np.ndarray:
        if self.alive(self.known.get(name)):
            return self.table[self.known[name].state]
        coming = training and self.sights(name) >= self.admit_after
        return np.full(DIMENSION, FRESH) if coming else self.default[0]

    def outputs(self, ids: np.ndarray, training: bool = False) -> np.ndarray:
        rows = np.array([[self.vector(name, training) for name in bag] for bag in ids.tolist()])
        return rows.sum(1) @ DIRECTION

    def step(self, ids: np.ndarray, labels: np.ndarray) -> None:
        """One update, of the batches of all replicas together."""
        errors = 2 * (self.outputs(ids, training=True) - labels) / len(ids)
        gradients = {name: np.zeros(DIMENSION) for name in dict.fromkeys(ids.ravel().tolist())}
        default, unknown = np.zeros((1, DIMENSION)), 0
        for bag, error in zip(ids.tolist(), errors, strict=True):
            for name in bag:
                known = self.alive(self.known.get(name)) or self.sights(name) >= self.admit_after
                target = gradients[name] if known else default[0]
                target += error * DIRECTION
                unknown += not known
        self.admit(list(gradients))
        touched = [name for name in gradients if name in self.known and self.known[name].last == self.made]
        states = np.array([self.known[name].state for name in touched], int)
        self.rule.apply(self.table, states, np.array([gradients[n] for n in touched]).reshape(-1, DIMENSION))
        rows = np.array([0] if unknown else [], int)  # a gradient of zero is not the same as none
        self.default_rule.apply(self.default, rows, default[rows])

    def admit(self, names: list) -> None:
        now = self.made + 1
        alive = {name for name in names if self.alive(self.known.get(name))}
        self.expired += sum(
            name in entries and not self.alive(entries[name])
            for name in names
            for entries in (self.known, self.waiting)
        )
        wanted = [name for name in names if name not in alive and self.sights(name) >= self.admit_after]
        more = [name for name in names if name not in alive and name not in wanted]
        if self.admit_after > 1:
            sights = {name: self.sights(name) for name in more}
            for name in [name for name in more if name in self.waiting]:
                self.waiting[name].uses, self.waiting[name].last = sights[name], now
            for name in [name for name in wanted if name in self.waiting]:
                self.free[1].append(self.waiting.pop(name).row)
            self.place(self.waiting, 1, [name for name in more if name not in self.waiting], 1)
        for name in alive:
            self.known[name].uses, self.known[name].last = self.known[name].uses + 1, now
        for name in wanted:
            if name in self.known:
                self.known[name] = Entry(self.known[name].row, self.admit_after, now, self.new_state())
        for name in self.place(self.known, 0, [n for n in wanted if n not in self.known], self.admit_after):
            self.known[name].state = self.new_state()
        self.made = now

    def new_state(self) -> int:
        self.states += 1
        return self.states - 1

    def place(self, entries: dict, which: int, names: list, uses: int) -> list:
        free = self.free[which]
        short = len(names) - len(free)
        order = sorted(
            (name for name in entries if entries[name].last <= self.made),
            key=lambda name: (
                entries[name].uses if self.alive(entries[name]) else 0,
                entries[name].last,
                entries[name].row,
            ),
        )
        for name in order[: max(short, 0)]:
            self.evicted += 1
            free.append(entries.pop(name).row)
        placed = names[: len(free)]
        for name in placed:
            entries[name] = Entry(free.pop(), uses, self.made + 1)
        return placed


def book(values: dict[str, np.ndarray], name: str = "users") -> dict[Any, int]:
    """Id to row of a vocabulary, of a cluster's values."""
    keys, used = values[f"{name}/keys"], values[f"{name}/used"]
    decoded = [int(key[0]) if len(key) == 1 else decode(key) for key in keys]
    return {decoded[row]: row for row in np.flatnonzero(used[:, 0])}


def decode(key: np.ndarray) -> bytes:
    """The string of at most 15 bytes whose words these are."""
    raw = key.astype("<i8").tobytes()
    return raw[: raw[15]]
