"""Calls of local steps: some that a worker makes alone, and one that ends a round.

    calls = LocalCalls(step, num_ps, sections, steps)
    session.run(calls.ends(0))                  # the first pull of a session
    session.run(calls.local(31))                # no message to a ps
    session.run(calls.step.train)               # the 32nd local step, the push, and the next round's pull

With tables a round begins by itself: `calls.fronts(32)` reads its batches, and `calls.pull` pulls their rows.

A round may have any number of local steps, in calls of any lengths: the round is in the worker's variables.  One of
short steps is made in one call, `calls.whole(32)`: each call costs as much as a step of a small model.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from ps_train.engine.step.copied_nodes import READ_GATE, Gate, ps_of
from ps_train.engine.step.unroll import NOTHING, Placed, Section, UnrolledCalls, UnrolledStep


@dataclasses.dataclass(frozen=True)
class RoundSections:
    """The sections of a round.

    Attributes:
      local: the operation that ends a local step.
      pull: the operation that ends a pull.
      begun: the operation that runs when a pull alone has begun on all ps.
      told: int64 scalars, the global step of the pulled values, and the most steps of the round that begins with them.
      opening: further operations of the first pull of a session.
      pushed: what `told` is after a round that ends with its push; empty for rounds that end with a pull.
      front: reads a batch of a round before its pull; None where each local step reads its own.
    """

    local: tf.Operation
    pull: tf.Operation
    begun: tf.Operation
    told: Sequence[tf.Tensor]
    opening: Sequence[tf.Operation]
    pushed: Sequence[tf.Tensor]
    front: Section | None = None


class Told(NamedTuple):
    """What a pull tells the loop, int64 scalars.

    Attributes:
      step: the global step of the round's values.
      round_steps: the most steps of the round.
    """

    step: tf.Tensor
    round_steps: tf.Tensor


class RoundEnd(NamedTuple):
    """What a call fetches that ends a round, or makes all of it.

    Attributes:
      alone: the operations of those local steps that the call makes before the last one.
      train: the operations of the round's last step and its exchange.
      step, round_steps: as `Told`, of the next round.
      made: int64 scalar, the number of steps of the round that had examples.
      examples: float32 scalar, the number of examples that the round stands for.
    """

    alone: Sequence[tf.Operation]
    train: Sequence[tf.Operation]
    step: tf.Tensor
    round_steps: tf.Tensor
    made: tf.Tensor
    examples: tf.Tensor


class LocalCalls(UnrolledCalls):
    """The calls of rounds of local steps.

    Args:
      step: the last local step of a round, and its push.
      num_ps: number of ps.
      sections: the sections.
      steps_made: int64 scalar, the number of steps of the round that had examples.

    Attributes:
      pull: the operations of a pull alone.
      begins_alone: whether a round begins with calls of its own: `fronts` and `pull`.
      first_round: what the first pull tells.
      end: the end of a round, to which hooks belong.
    """

    def __init__(self, step: UnrolledStep, num_ps: int, sections: RoundSections, steps_made: tf.Tensor) -> None:
        first = self.first_round = Told(*sections.told)
        self.begins_alone, ends = sections.front is not None, list[tf.Operation]()
        if sections.pushed:
            next_round = Told(*sections.pushed)
            ends = [] if self.begins_alone else [sections.pull]
        else:
            pull, *told = _pull_after(step.train, [sections.pull, *(tensor.op for tensor in first)], num_ps)
            next_round = Told(*(op.outputs[one.value_index] for op, one in zip(told, first, strict=True)))
            ends = [pull]
        super().__init__(UnrolledStep([*step.train, *ends], step.examples), num_ps)
        self._fronts = None if sections.front is None else FrontCalls(self.step, num_ps, sections.front)
        self._sections, self.pull = sections, [sections.pull, sections.begun]
        self.end = RoundEnd((), self.step.train, *next_round, steps_made, step.examples)
        self._whole: dict[int, RoundEnd] = {}

    @functools.cached_property
    def section(self) -> Section:
        """A local step."""
        return Section([self._sections.local], self._num_ps)

    def steps(self, count: int) -> list[UnrolledStep]:
        """Returns the end of a round: its last step, the push and the pull."""
        return [self.step][:count]

    def ends(self, count: int) -> list[tf.Operation]:
        """Returns the first pull of a session, if it is asked for."""
        return [] if count else [*self.pull, *self._sections.opening]

    def local(self, count: int) -> list[tf.Operation]:
        """Returns so many local steps, and makes those that are missing; call it in one thread at a time."""
        self.place(count)
        return [op for placed in self.placed[:count] for op in placed.ops]

    def fronts(self, count: int) -> list[tf.Operation]:
        """Returns so many fronts, and makes those that are missing; call it in one thread at a time."""
        assert self._fronts is not None, "the round begins with its batches"
        self._fronts.place(count)
        return [op for placed in self._fronts.placed[:count] for op in placed.ops]

    def whole(self, length: int) -> RoundEnd:
        """Returns a round of so many steps, at least 2, in one call; adds it if it is missing, in one thread at a time.

        Hooks are no part of it: what they fetch belongs to the step that is not copied.
        """
        if length not in self._whole:
            with self.extending():
                self._whole[length] = self._add_whole(length)
        return self._whole[length]

    def _add_whole(self, length: int) -> RoundEnd:
        _, ops, *tensors = self.end
        end = Section([*ops, *(tensor.op for tensor in tensors)], self._num_ps)
        front, begun = self._sections.front, self._sections.begun
        before = [] if front is None else [front] * length + [Section([self._sections.pull], self._num_ps)]
        placed, alone = NOTHING, list[tf.Operation]()
        for number, section in enumerate([*before, *[self.section] * (length - 1), end], 1):
            # A call that a task refuses, and that is made again, must not have read a batch.
            gates = {} if number > 1 else {READ_GATE: Gate(begun.device, [begun])}
            placed = section.copy(f"round_{length}/{number}", number, placed, gates)
            alone += placed.ops if section is self.section else []
        told = zip(placed.ops[len(ops) :], tensors, strict=True)
        return RoundEnd(alone, [*placed.ops[: len(ops)], begun], *(op.outputs[one.value_index] for op, one in told))

    def next_section(self, number: int) -> Placed:
        """Adds a copy of the local step; not even the first one is the step itself, which belongs to a round's end."""
        return self.section.copy(f"local_{number}", number + 1, self.placed[-1] if number else NOTHING)


class FrontCalls(UnrolledCalls):
    """The fronts of a round's steps.

    Args:
      step: a step of the graph.
      num_ps: number of ps.
      front: a front.
    """

    def __init__(self, step: UnrolledStep, num_ps: int, front: Section) -> None:
        super().__init__(step, num_ps)
        self._front = front

    def next_section(self, number: int) -> Placed:
        """Adds a copy of the front."""
        return self._front.copy(f"front_{number}", number + 1, self.placed[-1] if number else NOTHING)


def _pull_after(train: Sequence[tf.Operation], pull: Sequence[tf.Operation], num_ps: int) -> Sequence[tf.Operation]:
    """Adds a copy of a pull that begins on each ps when the push has ended there."""
    on_ps = [op for op in train if ps_of(op) is not None]
    return Section(pull, num_ps).copy("pull_after", 1, Placed(on_ps=on_ps)).ops
