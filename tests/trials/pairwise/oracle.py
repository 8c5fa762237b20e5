"""What a row's values must be: the updates of its run one after the other, in numpy, with nothing of ps_train.

    oracle = Oracle(row)
    oracle.run(10)                      # the updates of the first process, up to step 10
    oracle.start_again()                # workers read their data from the beginning, or go on under dynamic sharding
    oracle.run(14)                      # returns 14, or less where the input ends
    oracle.values["w1"], oracle.slots["w1"]["accumulator"]

It says what is *right*: a step changes only what its examples use, and nothing happens that is no step.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from tests.trials.pairwise.factors import (
    ADMIT_AFTER,
    BATCH,
    CLIPS,
    EPOCHS,
    EXPIRE_STEPS,
    RATE,
    Row,
)
from tests.trials.pairwise.model import (
    COUNTED,
    DIMENSION,
    FACTORS_OF_HIDDEN,
    FACTORS_OF_ROWS,
    GIVEN_ROWS,
    IDS,
    LOSS,
    ROW,
    initial_values,
    make_examples,
)

DEFAULT = IDS
"""The number of the row of unknown ids, after those of all ids; it is a table of its own."""

TABLES = ("emb", "emb/default")

Push = Sequence[int]
"""The examples of one worker's part of an update."""

Gradients = dict[str, np.ndarray]


class Optimizer:
    """One of TensorFlow's optimizers, with its defaults, in numpy.

    Args:
      name: the value of --optimizer.
      accumulator: initial value of the accumulators of Adagrad; None: its default.
      epsilon: that of Adam; None: its default.

    Attributes:
      slots: names of the slots, and their initial value; those of the checkpoint are in SLOT_KEYS.
    """

    def __init__(self, name: str, accumulator: float | None = None, epsilon: float | None = None) -> None:
        self.name, self._count, self._epsilon = name, 0, 1e-8 if epsilon is None else epsilon
        accumulator = 0.1 if accumulator is None else accumulator
        self.slots: Mapping[str, float] = {
            "sgd": {},
            "momentum": {"momentum": 0.0},
            "adam": {"m": 0.0, "v": 0.0},
            "lazy_adam": {"m": 0.0, "v": 0.0},
            "adagrad": {"accumulator": accumulator},
            "rowwise_adagrad": {"accumulator": accumulator},
            "ftrl": {"accumulator": 0.1, "linear": 0.0},
            "rmsprop": {"rms": 1.0, "momentum": 0.0},
        }[name]

    @classmethod
    def of(cls, row: Row) -> Optimizer:
        """Returns the optimizer of a row."""
        return cls(row.optimizer, row.accumulator, row.epsilon)

    def make_slots(self, value: np.ndarray) -> dict[str, np.ndarray]:
        """Makes the slots of a variable."""
        shape = value.shape[:1] if self.name == "rowwise_adagrad" else value.shape
        return {name: np.full(shape, initial) for name, initial in self.slots.items()}

    def go_on_from(self, value: np.ndarray, slots: Mapping[str, np.ndarray]) -> None:
        """Makes slots those from which a value follows, if values are computed from them."""
        if self.name == "ftrl":
            slots["linear"][...] = -value * np.sqrt(slots["accumulator"]) / RATE

    def begin(self) -> None:
        """Begins an update."""
        self._count += 1

    def apply(self, value: np.ndarray, slots: Mapping[str, np.ndarray], rows: Sequence[int], g: np.ndarray) -> None:
        """Updates rows of a variable, and of its slots."""
        if not len(rows):
            return
        own = {name: slot[rows] for name, slot in slots.items()}
        new, changed = self._updated(value[rows], own, g)
        value[rows] = new
        for name, slot in changed.items():
            slots[name][rows] = slot

    def _updated(
        self, w: np.ndarray, slots: Mapping[str, np.ndarray], g: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        if self.name == "sgd":
            return w - RATE * g, {}
        if self.name == "momentum":
            momentum = 0.9 * slots["momentum"] + g
            return w - RATE * momentum, {"momentum": momentum}
        if self.name in ("adam", "lazy_adam"):
            m, v = 0.9 * slots["m"] + 0.1 * g, 0.999 * slots["v"] + 0.001 * g**2
            rate = RATE * np.sqrt(1 - 0.999**self._count) / (1 - 0.9**self._count)
            return w - rate * m / (np.sqrt(v) + self._epsilon), {"m": m, "v": v}
        if self.name == "adagrad":
            accumulator = slots["accumulator"] + g**2
            return w - RATE * g / np.sqrt(accumulator), {"accumulator": accumulator}
        if self.name == "rowwise_adagrad":
            squares = (g**2).reshape(len(g), -1).mean(1)
            accumulator = slots["accumulator"] + squares
            return w - RATE * g / np.sqrt(accumulator).reshape(-1, *[1] * (g.ndim - 1)), {"accumulator": accumulator}
        if self.name == "ftrl":
            accumulator = slots["accumulator"] + g**2
            linear = slots["linear"] + g - (np.sqrt(accumulator) - np.sqrt(slots["accumulator"])) / RATE * w
            return -linear * RATE / np.sqrt(accumulator), {"accumulator": accumulator, "linear": linear}
        rms = 0.9 * slots["rms"] + 0.1 * g**2
        momentum = RATE * g / np.sqrt(rms + 1e-10)
        return w - momentum, {"rms": rms, "momentum": momentum}


class Oracle:
    """The run of a row.

    Attributes:
      values: variable name to value; the table `emb` has a row for each id, and `emb/default` is that of unknown ids.
      slots: variable name to its slots.
      step: the global step.
      skipped: pushes that were left out because their loss is not a number.
    """

    def __init__(self, row: Row) -> None:
        self.row, self.step, self.skipped = row, 0, 0
        self.x, self.ids, self.labels = make_examples(
            row.examples, row.has_equal_examples, -1 if row.nan_example is None else row.nan_example
        )
        self.values = {name: value.astype(np.float64) for name, value in initial_values().items()}
        if row.table == "none":
            del self.values["we"]
        else:
            rows = GIVEN_ROWS if row.table == "rows" else np.full((IDS, DIMENSION), ROW)
            self.values |= {"emb": rows.astype(np.float64), "emb/default": np.full((1, DIMENSION), ROW)}
        self._optimizer = Optimizer.of(row)
        self._row_optimizer = Optimizer.of(row) if row.has_lone_rows else self._optimizer
        # With top_k all momentum of dense variables is on the worker, which forgets that of each value that it sends.
        is_forgetful = row.codecs[1].startswith("top_k") and row.optimizer == "momentum"
        self._dense_optimizer = Optimizer("sgd") if is_forgetful else self._optimizer
        self.slots = {name: self._optimizer_of(name).make_slots(value) for name, value in self.values.items()}
        self._uses, self._last_use = np.zeros(IDS, int), np.zeros(IDS, int)
        self._clock = 0  # the updates of the table
        self._updates = self._pushes()

    def _optimizer_of(self, name: str) -> Optimizer:
        return self._row_optimizer if name in TABLES else self._dense_optimizer

    def run(self, until: int, planned: int = 0) -> int:
        """Makes updates up to a global step; returns the global step, which is less if the input has ended.

        planned: the last step for which the job was started, if something has ended it before.
        """
        while self.step < until and (pushes := next(self._updates, None)) is not None:
            self._update(pushes)
        return self.step

    def next_skipped(self) -> int:
        """Returns the number of pushes that the next update leaves out; the oracle makes no further one."""
        return sum(not self._is_finite(push) for push in next(self._updates, []))

    def _is_finite(self, push: Push) -> bool:
        return bool(np.isfinite(self.labels[list(push)]).all())

    def start_again(self) -> None:
        """Starts all processes again: only dynamic sharding knows which examples are used.

        A worker that joins living ps under `sync` announces itself with its first gradient, which is not used.
        """
        if self.row.sharding == "static":
            self._updates = self._pushes()
            if self.row.update == "sync" and self.row.event == "kill_worker":
                next(self._updates)

    @property
    def known_ids(self) -> set[int]:
        """The ids that have a row."""
        if self.row.table == "rows":
            return set(range(IDS))
        return {number for number in range(IDS) if self._is_known(number)}

    def _is_known(self, number: int) -> bool:
        needed = ADMIT_AFTER if self.row.table == "admit" else 1
        return self._uses[number] >= needed and not self._is_expired(number)

    def _is_expired(self, number: int) -> bool:
        return self.row.table == "expire" and self._clock - self._last_use[number] >= EXPIRE_STEPS

    def _pushes(self) -> Iterator[list[Push]]:
        """Yields the parts of each update, in the order of the workers."""
        row = self.row
        epochs = range(EPOCHS) if row.ending == "epochs" else itertools.count()
        if row.sharding == "dynamic":
            for _ in epochs:  # a batch is of one shard, and a shard of one epoch
                for begin in range(0, row.examples, 2 * BATCH):
                    shard = range(begin, min(begin + 2 * BATCH, row.examples))
                    yield from ([shard[first : first + BATCH]] for first in range(0, len(shard), BATCH))
        elif row.is_stale:
            for pushes in itertools.zip_longest(*[self._share(worker) for worker in range(row.num_workers)]):
                yield from ([push] for push in pushes if push is not None)
        else:
            for pushes in itertools.zip_longest(*[self._share(worker) for worker in range(row.num_workers)]):
                yield [push for push in pushes if push is not None]

    def _share(self, worker: int) -> Iterator[Push]:
        """Yields the pushes of a worker under static sharding: epochs follow one another within a batch."""
        row = self.row
        own = range(worker, row.examples, row.num_workers)
        examples = itertools.chain.from_iterable(own for _ in range(EPOCHS)) if row.ending == "epochs" else (
            itertools.cycle(own)
        )  # fmt: skip
        while push := list(itertools.islice(examples, BATCH * row.accumulate)):
            yield push

    def _update(self, pushes: Sequence[Push]) -> None:
        """Makes an update; a push whose loss is not a number is left out, and an update of none is no step."""
        finite = [push for push in pushes if self._is_finite(push)]
        self.skipped += len(pushes) - len(finite)
        if not finite:
            return
        self._forget_expired()
        table_rows = self._rows_of(finite)
        total = sum(len(push) for push in finite)
        sums: Gradients = {}
        used: set[int] = set()
        alone: list[tuple[Push, Gradients, set[int]]] = []
        for push in finite:
            gradients, rows = self._gradients(push, table_rows)
            used |= rows
            if self.row.has_lone_rows:
                alone.append((push, {name: gradients.pop(name) for name in TABLES}, rows))
            for name, gradient in gradients.items():
                sums[name] = sums.get(name, 0) + gradient * (len(push) / total)
        for optimizer in {id(one): one for one in (self._optimizer, self._dense_optimizer)}.values():
            optimizer.begin()
        for name, gradient in sums.items():
            rows = rows_used(name, used, len(gradient))
            self._optimizer_of(name).apply(self.values[name], self.slots[name], rows, gradient[rows])
        self.step += 1
        for one in alone:
            self._apply_alone(*one)
        if not alone:
            self._count({int(self.ids[example]) for push in finite for example in push})

    def _apply_alone(self, push: Push, gradients: Gradients, used: Collection[int]) -> None:
        """Updates rows of the table when a worker brings them."""
        self._row_optimizer.begin()
        for name, gradient in gradients.items():
            rows = rows_used(name, used, len(gradient))
            self._row_optimizer.apply(self.values[name], self.slots[name], rows, gradient[rows])
        self._count({int(self.ids[example]) for example in push})

    def _count(self, numbers: Collection[int]) -> None:
        """Counts the ids that an update of the table uses."""
        self._clock += 1
        for number in numbers:
            self._uses[number] += 1
            self._last_use[number] = self._clock

    def _rows_of(self, pushes: Sequence[Push]) -> dict[int, int]:
        """Returns id to the row that this update reads and changes: a new id that it admits has its own row."""
        needed = ADMIT_AFTER if self.row.table == "admit" else 1
        numbers = {int(self.ids[example]) for push in pushes for example in push}
        return {number: number if self._uses_before(number) + 1 >= needed else DEFAULT for number in numbers}

    def _uses_before(self, number: int) -> int:
        return int(self._uses[number])

    def _forget_expired(self) -> None:
        for number in range(IDS):
            if self._is_expired(number):
                self._forget(number)

    def _forget(self, number: int) -> None:
        self._uses[number] = 0
        self.values["emb"][number] = ROW
        for name, slot in self.slots["emb"].items():
            slot[number] = self._optimizer.slots[name]

    def _gradients(self, push: Push, table_rows: Mapping[int, int]) -> tuple[Gradients, set[int]]:
        """Returns the gradients of a worker's push as it sends them, and the table's rows that it uses."""
        numbers = list(push)
        x, labels = self.x[numbers].astype(np.float64), self.labels[numbers].astype(np.float64)
        rows = np.array([table_rows[int(number)] for number in self.ids[numbers]])
        gradients = self._derived(x, rows, labels)
        used = set(rows.tolist())
        for name, gradient in gradients.items():
            changed = rows_used(name, used, len(gradient))
            gradient[changed] += self.row.l2 * self._pulled(name)[changed]
        return self._clipped(gradients), used

    def _derived(self, x: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> Gradients:
        """Returns the derivatives of the loss."""
        dtype = self.row.compute_dtype
        x, w = _rounded(x, dtype), {name: _rounded(self._pulled(name), dtype) for name in self.values}
        hidden = x @ w["w1"] + w["b1"]
        looked_up = np.concatenate([w["emb"], w["emb/default"]])[rows] if "emb" in w else np.zeros(0)
        if self.row.is_linear:
            of_out = LOSS * labels / len(labels)
            of_hidden = of_out[:, np.newaxis] * FACTORS_OF_HIDDEN
            of_w2 = np.full_like(w["w2"], of_out.sum())
        else:
            out = np.tanh(hidden) @ w["w2"][:, 0] + w["b2"]
            out = out + looked_up @ w["we"][:, 0] if "emb" in w else out
            of_out = LOSS * 2 * (out - labels) / len(labels)
            of_hidden = of_out[:, np.newaxis] * w["w2"][:, 0] * (1 - np.tanh(hidden) ** 2)
            of_w2 = np.tanh(hidden).T @ of_out[:, np.newaxis]
        found = {
            "w1": x.T @ of_hidden, "b1": of_hidden.sum(0), "w2": of_w2, "b2": of_out.sum(keepdims=True),
            "count": np.full_like(w["count"], COUNTED),
        }  # fmt: skip
        if "emb" in w:
            of_rows = of_out[:, np.newaxis] * (FACTORS_OF_ROWS if self.row.is_linear else w["we"][:, 0])
            table = np.zeros((IDS + 1, DIMENSION))
            np.add.at(table, rows, of_rows)
            found |= {"emb": table[:DEFAULT], "emb/default": table[DEFAULT:]}
            found["we"] = (
                np.full_like(w["we"], of_out.sum()) if self.row.is_linear else looked_up.T @ of_out[:, np.newaxis]
            )
        return found

    def _pulled(self, name: str) -> np.ndarray:
        """Returns a variable as it arrives at a worker; int8 is right in the mean."""
        return _rounded(self.values[name], self.row.codecs[0])

    def _clipped(self, gradients: Gradients) -> Gradients:
        limits = CLIPS[self.row.clip]
        if "clip_value" in limits:
            gradients = {name: np.clip(g, -limits["clip_value"], limits["clip_value"]) for name, g in gradients.items()}
        if "clip_norm" in limits:
            gradients = {name: _scaled(g, np.linalg.norm(g), limits["clip_norm"]) for name, g in gradients.items()}
        if "clip_global_norm" in limits:
            norm = np.sqrt(sum(np.sum(g**2) for g in gradients.values()))
            gradients = {name: _scaled(g, norm, limits["clip_global_norm"]) for name, g in gradients.items()}
        return gradients


def _rounded(value: np.ndarray, dtype: str) -> np.ndarray:
    """Returns the nearest numbers of a dtype of 16 bits, the even one of two; the same numbers for all others."""
    if dtype == "float16":
        return value.astype(np.float16).astype(np.float64)
    if dtype != "bfloat16":
        return value
    mantissa, exponent = np.frexp(value)
    return np.ldexp(np.rint(mantissa * 256) / 256, exponent)


def rows_used(name: str, used: Collection[int], count: int) -> list[int]:
    """Returns the rows of a variable that an update changes."""
    if name == "emb":
        return sorted(number for number in used if number != DEFAULT)
    if name == "emb/default":
        return [0] if DEFAULT in used else []
    return list(range(count))


def _scaled(gradient: np.ndarray, norm: float, limit: float) -> np.ndarray:
    return gradient * min(1.0, limit / norm) if norm else gradient
