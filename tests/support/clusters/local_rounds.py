"""Rounds of local steps in numpy, of float64: what the papers say, without TensorFlow.

    shares = [batches_for(data, size=4, worker=worker, workers=2) for worker in range(2)]
    rounds = LocalRounds(values, shares, Adam, Descent(1.0), rate=lambda step: 0.05)
    rounds.together([3, 3, 2])          # all workers, as under `sync`
    rounds.alone(0, [3])                # one worker, as under `async`
    rounds.values, rounds.step, rounds.examples

The model is `tests/support/models/small.py:Linear`, unless another gradient is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
Values = dict[str, Array]


class Batch(NamedTuple):
    features: Array
    labels: Array


def batches_for(
    data: Any, size: int, worker: int = 0, workers: int = 1, epochs: int = 0, accumulate: int = 1
) -> Iterator[Batch]:
    """The batches of a worker, who has every so many-th example; after the last epoch those without examples.

    Accumulated batches are one of all their examples: a mean over them weighs each example alike.
    """
    x, y = (np.asarray(part, np.float64)[worker::workers] for part in (data.features, data.labels))
    size *= accumulate
    begin, end = 0, len(y) * epochs
    while True:
        rows = np.arange(begin, begin + size)
        rows = rows[rows < end] if epochs else rows
        yield Batch(x[rows % len(y)], y[rows % len(y)])
        begin += size


def linear_gradient(batch: Batch, values: Values) -> Values:
    """That of the mean square error of x @ w + b."""
    error = batch.features @ values["w"][:, 0] + values["b"] - batch.labels
    return {"w": 2 * (batch.features.T @ error)[:, np.newaxis] / len(error), "b": 2 * np.mean(error)}


class Inner(Protocol):
    """An optimizer of a worker, with its slots."""

    def moves(self, gradients: Values, rate: float) -> Values:
        """What a step subtracts from the values."""


class Sgd:
    def moves(self, gradients: Values, rate: float) -> Values:
        return {name: rate * gradient for name, gradient in gradients.items()}


class Momentum:
    """Polyak 1964, with TensorFlow's sum of gradients that are not multiplied by the rate."""

    def __init__(self, share: float = 0.9) -> None:
        self._share = share
        self._sums: Values = {}

    def moves(self, gradients: Values, rate: float) -> Values:
        self._sums = {name: self._share * self._sums.get(name, 0.0) + one for name, one in gradients.items()}
        return {name: rate * one for name, one in self._sums.items()}


class Adam:
    """Kingma and Ba 2015; epsilon is that of the line before section 2.1, as in TensorFlow 1."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        self._beta1, self._beta2, self._epsilon, self._steps = beta1, beta2, epsilon, 0
        self._first: Values = {}
        self._second: Values = {}

    def moves(self, gradients: Values, rate: float) -> Values:
        self._steps += 1
        for moments, share, power in ((self._first, self._beta1, 1), (self._second, self._beta2, 2)):
            for name, one in gradients.items():
                moments[name] = share * moments.get(name, 0.0) + (1 - share) * one**power
        rate *= np.sqrt(1 - self._beta2**self._steps) / (1 - self._beta1**self._steps)
        return {name: rate * self._first[name] / (np.sqrt(self._second[name]) + self._epsilon) for name in gradients}


class Adagrad:
    """Duchi et al. 2011, with TensorFlow's first sum of squares."""

    def __init__(self, first: float = 0.1) -> None:
        self._first = first
        self._sums: Values = {}

    def moves(self, gradients: Values, rate: float) -> Values:
        self._sums = {name: self._sums.get(name, self._first) + one**2 for name, one in gradients.items()}
        return {name: rate * one / np.sqrt(self._sums[name]) for name, one in gradients.items()}


class Outer(Protocol):
    """The optimizer of the common values."""

    def moves(self, difference: Values, divisor: float) -> Values:
        """What a difference subtracts from the values; `divisor` divides the rate."""


class Descent:
    """With rate 1 and the mean of all workers it is the averaging of Stich 2019."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def moves(self, difference: Values, divisor: float) -> Values:
        return {name: self._rate / divisor * one for name, one in difference.items()}


class Nesterov:
    """Douillard et al. 2023, algorithm 1, with the Nesterov momentum of Sutskever et al. 2013."""

    def __init__(self, rate: float = 0.7, momentum: float = 0.9) -> None:
        self._rate, self._share = rate, momentum
        self._momentum: Values = {}

    def moves(self, difference: Values, divisor: float) -> Values:
        old, rate = self._momentum, self._rate / divisor
        self._momentum = {name: self._share * old.get(name, 0.0) + one for name, one in difference.items()}
        return {name: rate * (one + self._share * self._momentum[name]) for name, one in difference.items()}


class DelayedNesterov:
    """Liu et al. 2024, algorithm 3 with c = 0."""

    def __init__(self, workers: int, rate: float = 0.7, momentum: float = 0.9) -> None:
        self._every, self._rate, self._share = workers, rate, momentum
        self._pseudo_gradients: list[Values] = []
        self._momentum: Values = {}

    def moves(self, difference: Values, divisor: float) -> Values:
        self._pseudo_gradients.append(difference)
        rate, some = self._rate / divisor, self._pseudo_gradients
        moved = {name: rate * one / self._every for name, one in difference.items()}
        if len(some) == self._every:
            for name in difference:
                mean = np.mean([one[name] for one in some], 0)
                self._momentum[name] = self._share * self._momentum.get(name, 0.0) + mean
                moved[name] = moved[name] + rate * self._share * self._momentum[name]
            self._pseudo_gradients = []
        return moved


class Worker:
    """A worker: the values at the beginning of a round, its present ones, its slots, its input.

    Attributes:
      pulled: the global step of the values at the beginning of the round.
    """

    def __init__(self, values: Values, batches: Iterator[Batch], inner: Callable[[], Inner]) -> None:
        self._inner, self.batches, self.pulled = inner, batches, 0
        self.begin_anew(values, 0)

    def begin_anew(self, values: Values, step: int) -> None:
        """As in a new session."""
        self.forget_slots()
        self.take(values, step)

    def take(self, values: Values, step: int) -> None:
        """Begins a round with the common values."""
        self.start, self.now, self.pulled = dict(values), dict(values), step

    def forget_slots(self) -> None:
        self.slots = self._inner()

    def difference(self) -> Values:
        return _minus(self.start, self.now)


class Made(NamedTuple):
    """The local steps of a round: those that had examples, those among them that were left out, examples used."""

    steps: int
    left_out: int
    examples: int


def _unchanged(gradients: Values, values: Values) -> Values:
    return gradients


class LocalRounds:
    """Rounds of some workers.

    Args:
      values: the initial ones.
      batches: those of each worker.
      inner: makes the slots of a worker.
      outer: the outer optimizer; None under elastic averaging.
      rate: the inner learning rate of the step after so many global steps.
      alpha: the part of their distance in which both sides give in, under elastic averaging.
      fresh: whether slots begin anew after each round.
      gradient: the gradient of the loss of a batch.
      transform: a function of gradients and values; returns the gradients to use.
      max_staleness, divides: the rules for stale differences, of which the age is counted in rounds.

    Attributes:
      values: the common values.
      step, examples, skipped, dropped: what is counted.
    """

    def __init__(
        self,
        values: Values,
        batches: Sequence[Iterator[Batch]],
        inner: Callable[[], Inner],
        outer: Outer | None,
        *,
        rate: Callable[[int], float],
        alpha: float = 0.0,
        fresh: bool = False,
        gradient: Callable[[Batch, Values], Values] = linear_gradient,
        transform: Callable[[Values, Values], Values] = _unchanged,
        max_staleness: float = np.inf,
        divides: bool = False,
    ) -> None:
        self.values: Values = {name: np.asarray(value, np.float64) for name, value in values.items()}
        self.workers = [Worker(self.values, some, inner) for some in batches]
        self.step = self.examples = self.skipped = self.dropped = 0
        self._outer, self._alpha, self._fresh, self._rate = outer, alpha, fresh, rate
        self._gradient, self._transform = gradient, transform
        self._max_staleness, self._divides = max_staleness, divides

    def together(self, lengths: Sequence[int]) -> None:
        """Rounds of all workers, of whose differences the mean over all examples counts once."""
        for length in lengths:
            made = [self._steps(worker, length) for worker in self.workers]
            total = sum(one.examples for one in made)
            weights = [one.examples / max(total, 1) for one in made]
            # A batch that is left out is one of the round's: others have used theirs.
            self._exchange(self.workers, weights, total, max(one.steps for one in made))
            self.skipped += sum(one.left_out for one in made)

    def alone(self, index: int, lengths: Sequence[int]) -> None:
        """Rounds of one worker."""
        for length in lengths:
            worker = self.workers[index]
            made = self._steps(worker, length)
            self._exchange([worker], [1.0], made.examples, made.steps - made.left_out)
            self.skipped += made.left_out

    def leave(self, index: int, steps: int) -> None:
        """A round that is abandoned after some local steps: nothing but the input remembers it."""
        self._steps(self.workers[index], steps)
        self.workers[index].begin_anew(self.values, self.step)

    def _steps(self, worker: Worker, length: int) -> Made:
        steps = left_out = examples = 0
        for number in range(length):
            batch = next(worker.batches)
            if not len(batch.labels):
                continue
            steps += 1
            gradients = self._transform(self._gradient(batch, worker.now), worker.now)
            if not all(np.all(np.isfinite(one)) for one in gradients.values()):
                left_out += 1
                continue
            examples += len(batch.labels)
            worker.now = _minus(worker.now, worker.slots.moves(gradients, self._rate(worker.pulled + number)))
        return Made(steps, left_out, examples)

    def _exchange(self, workers: Sequence[Worker], weights: Sequence[float], examples: int, steps: int) -> None:
        age = -(-(self.step - workers[0].pulled) // max(steps, 1))
        self.dropped += age > self._max_staleness
        is_used = examples > 0 and age <= self._max_staleness
        if self._outer is None:
            moves = self._meet(workers, weights)
        elif is_used:
            moves = self._outer.moves(_sum([one.difference() for one in workers], weights), self._divisor(age))
        if is_used:
            self.values = _minus(self.values, moves)
            self.step, self.examples = self.step + steps, self.examples + examples
        for worker in workers:
            if self._fresh:
                worker.forget_slots()
            if self._outer is None:
                worker.pulled = self.step
            else:
                worker.take(self.values, self.step)

    def _divisor(self, age: int) -> float:
        return max(age, 1) if self._divides else 1.0

    def _meet(self, workers: Sequence[Worker], weights: Sequence[float]) -> Values:
        """Zhang et al. 2015, equations 5 and 6: moves the workers; returns what the common values lose."""
        distances = [_minus(self.values, worker.now) for worker in workers]
        for worker, distance in zip(workers, distances, strict=True):
            worker.now = {name: value + self._alpha * distance[name] for name, value in worker.now.items()}
        return _sum(distances, [self._alpha * len(workers) * weight for weight in weights])


def _minus(values: Values, others: Values) -> Values:
    return {name: value - others[name] for name, value in values.items()}


def _sum(several: Sequence[Values], weights: Sequence[float]) -> Values:
    pairs = [*zip(several, weights, strict=True)]
    return {name: np.sum([weight * one[name] for one, weight in pairs], 0) for name in several[0]}
