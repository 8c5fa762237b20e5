"""Rounds of local steps of the tables of `Bags` in numpy, of float64.

rounds = RoundsOfBags(cluster)
rounds.together(3)              # all workers, as under `sync`
rounds.alone(0, 3)              # one worker, as under `async`
rounds.begin(1, 3)              # one that begins, while others make rounds
rounds.end(1)
rounds.tables, rounds.rules, rounds.step
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence

import numpy as np

from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.local_rounds import Values, batches_for
from tests.support.models.tables import COMBINERS, AddedBags, Bags, NumpyRule, gradients_of_bags, outputs_of_bags


@dataclasses.dataclass
class Made:
    """What a round of a worker has changed, and for how many steps and examples it stands."""

    moved: Values
    added: dict[str, tuple[np.ndarray, np.ndarray]]
    bias: float
    steps: int = 0
    left_out: int = 0
    examples: int = 0


class RoundsOfBags:
    """Rounds of some workers.

    Args:
      cluster: has the model, the job, and the initial values.

    Attributes:
      tables, rules, bias: the common values, and those of slots.
      step, skipped, examples: what is counted.
    """

    def __init__(self, cluster: InProcessCluster) -> None:
        job, model, values = cluster.job, cluster.model, cluster.values()
        assert isinstance(model, Bags)
        workers, data = len(cluster.steps), model.data("train", "")
        self._rate, self._optimizer = float(job.learning_rate or 0), job.optimizer or ""
        self.tables = {name: values[name].astype(np.float64) for name in COMBINERS}
        self.rules = {name: NumpyRule(self._optimizer, self._rate, self.tables[name].shape) for name in COMBINERS}
        self.bias, self._momentum, self._is_nesterov = 0.0, 0.0, job.outer_optimizer == "nesterov"
        self.step = self.skipped = self.examples = 0
        self._is_added, self._is_dense = isinstance(model, AddedBags), model.dense
        self.batches = [batches_for(data, job.batch_size, one, workers, job.epochs) for one in range(workers)]
        self._begun: dict[int, Made] = {}

    def together(self, length: int) -> None:
        """A round of all workers: rows move by the mean over their examples."""
        made = [self._make(index, length) for index in range(len(self.batches))]
        total = max(sum(one.examples for one in made), 1)
        self._apply(made, [one.examples / total for one in made])
        self.step += max(one.steps for one in made)

    def alone(self, index: int, length: int) -> None:
        """A round of one worker, of whose difference rows move by its part."""
        self.begin(index, length)
        self.end(index)

    def begin(self, index: int, length: int) -> None:
        """A worker takes the present values."""
        self._begun[index] = self._make(index, length)

    def end(self, index: int) -> None:
        """A worker gives what it has changed since."""
        made = self._begun.pop(index)
        self._apply([made], [1 / len(self.batches)])
        self.step += made.steps - made.left_out

    def leave(self, index: int, steps: int) -> None:
        """A round that is abandoned when it has read so many batches."""
        for _ in range(steps):
            next(self.batches[index])

    def _make(self, index: int, length: int) -> Made:
        tables, rules, bias = copy.deepcopy((self.tables, self.rules, self.bias))
        made = Made({}, {}, 0.0)
        for _ in range(length):
            ids, labels = next(self.batches[index])
            ids = ids.astype(int)
            made.steps += len(labels) > 0
            if not np.all(np.isfinite(labels)):
                made.left_out += 1
                continue
            made.examples += len(labels)
            if len(labels):
                gradients = gradients_of_bags(tables, ids, labels - bias, self._is_added)
                if self._is_dense:
                    bias -= self._rate * np.mean(2 * (outputs_of_bags(tables, ids)[0] + bias - labels))
                for name, (rows, gradient) in gradients.items():
                    rules[name].apply(tables[name], rows, gradient)
        made.moved = {name: tables[name] - self.tables[name] for name in COMBINERS}
        made.added = {name: (rules[name].a - self.rules[name].a, rules[name].b - self.rules[name].b) for name in rules}
        made.bias = bias - self.bias
        return made

    def _apply(self, made: Sequence[Made], weights: Sequence[float]) -> None:
        for one, weight in zip(made, weights, strict=True):
            for name in COMBINERS:
                self.tables[name] += weight * one.moved[name]
                self.rules[name].a += one.added[name][0]
                self.rules[name].b += one.added[name][1]
            self.examples, self.skipped = self.examples + one.examples, self.skipped + one.left_out
        moved = sum(weight * one.bias for one, weight in zip(made, weights, strict=True))
        if self._is_nesterov:
            self._momentum = 0.9 * self._momentum + moved
            moved = 0.7 * (moved + 0.9 * self._momentum)
        self.bias += moved
