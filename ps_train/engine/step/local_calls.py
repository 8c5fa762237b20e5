"""Calls of local steps: some that a worker makes alone, and one that ends a round.

    calls = LocalCalls(step, num_ps, sections, steps)
    session.run(calls.ends(0))                  # the first pull of a session
    session.run(*calls.local.call(31))          # no message to a ps
    session.run(calls.step.train)               # the 32nd local step, the push, and the next round's pull

With tables a round begins by itself: `calls.front.call(32)` reads its batches, and `calls.pull` pulls their rows.

A round may have any number of local steps, in calls of any lengths: the round is in the worker's variables.  Some of
short steps are made in one call, `calls.whole(32, rounds=3)`: each call costs as much as a step of a small model.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from ps_train.engine.step.copied_nodes import READ_GATE, Gate, ps_of
from ps_train.engine.step.repeated_section import RepeatedSection
from ps_train.engine.step.unroll import NOTHING, Placed, Section, UnrolledCalls, UnrolledStep, extending


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
    """What a call fetches that ends a round, or makes all of some.

    Attributes:
      train: the operations of the rounds' last steps and exchanges.
      step, round_steps: as `Told`, of the next round.
      made: int64 scalar, the number of steps that had examples.
      examples: float32 scalar, the number of examples that the rounds stand for.
    """

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
      local: the local steps that are not the last one of a round.
      front: what a round begins with, with `pull`; None where a round begins with its first local step.
      first_round: what the first pull tells.
      end: the end of a round, to which hooks belong.
    """

    def __init__(self, step: UnrolledStep, num_ps: int, sections: RoundSections, steps_made: tf.Tensor) -> None:
        first = self.first_round = Told(*sections.told)
        ends = list[tf.Operation]()
        if sections.pushed:
            next_round = Told(*sections.pushed)
            ends = [] if sections.front is not None else [sections.pull]
        else:
            pull, *told = _pull_after(step.train, [sections.pull, *(tensor.op for tensor in first)], num_ps)
            next_round = Told(*(op.outputs[one.value_index] for op, one in zip(told, first, strict=True)))
            ends = [pull]
        super().__init__(UnrolledStep([*step.train, *ends], step.examples), num_ps)
        self.front = None if sections.front is None else RepeatedSection(sections.front, "front")
        self._sections, self.pull = sections, [sections.pull, sections.begun]
        self.end = RoundEnd(self.step.train, *next_round, steps_made, step.examples)
        self._whole: dict[tuple[int, int], RoundEnd] = {}

    @functools.cached_property
    def local(self) -> RepeatedSection:
        """See the class; found when it is first asked for, when all of the step is built."""
        return RepeatedSection(Section([self._sections.local], self._num_ps), "local")

    @property
    def begins_alone(self) -> bool:
        """Whether a round begins with calls of its own: `front` and `pull`."""
        return self.front is not None

    @property
    def nodes(self) -> int:
        """The number of nodes that TensorFlow prepares for each further local step of a call."""
        return self.local.nodes

    @functools.cached_property
    def round_nodes(self) -> int:
        """The number of nodes of a round in one call, without those of `nodes`."""
        return self._end_section.nodes + (self.local.section.nodes if self.local.is_loop else 0)

    def steps(self, count: int) -> list[UnrolledStep]:
        """Returns the end of a round: its last step, the push and the pull."""
        return [self.step][:count]

    def ends(self, count: int) -> list[tf.Operation]:
        """Returns the first pull of a session, if it is asked for."""
        return [] if count else [*self.pull, *self._sections.opening]

    def whole(self, length: int, rounds: int = 1) -> RoundEnd:
        """Returns rounds of so many steps, at least 2, in one call; adds it if it is missing, in one thread at a time.

        Hooks are no part of it: what they fetch belongs to the step that is not copied.
        """
        if (length, rounds) not in self._whole:
            with extending(self.step.examples.graph):
                self._whole[length, rounds] = self._add_whole(length, rounds)
        return self._whole[length, rounds]

    @functools.cached_property
    def _end_section(self) -> Section:
        ops, *tensors = self.end
        return Section([*ops, *(tensor.op for tensor in tensors)], self._num_ps)

    def _add_whole(self, length: int, rounds: int) -> RoundEnd:
        ops, *tensors = self.end
        name, number, placed = f"rounds_{rounds}_{length}", 2, NOTHING  # 1 is that of a call of local steps
        # A call that a task refuses, and that is made again, must not have read a batch.
        gates = {READ_GATE: Gate(self._sections.begun.device, [self._sections.begun])}
        train, made, examples = [self._sections.begun], list[tf.Tensor](), list[tf.Tensor]()
        for _ in range(rounds):
            if self.front is not None:
                *_, placed = self.front.times(length, name, number, placed, gates)
                number += length
                placed = Section([self._sections.pull], self._num_ps).copy(f"{name}/{number}", number, placed)
                number, gates = number + 1, {}
            *_, placed = self.local.times(length - 1, name, number, placed, gates)
            number, gates = number + length, {}
            placed = self._end_section.copy(f"{name}/{number - 1}", number - 1, placed)
            train += placed.ops[: len(ops)]
            told = [op.outputs[one.value_index] for op, one in zip(placed.ops[len(ops) :], tensors, strict=True)]
            made, examples = [*made, told[-2]], [*examples, told[-1]]
        with tf.device(self._sections.begun.device):
            return RoundEnd(train, told[0], told[1], tf.add_n(made), tf.add_n(examples))


def _pull_after(train: Sequence[tf.Operation], pull: Sequence[tf.Operation], num_ps: int) -> Sequence[tf.Operation]:
    """Adds a copy of a pull that begins on each ps when the push has ended there."""
    on_ps = [op for op in train if ps_of(op) is not None]
    return Section(pull, num_ps).copy("pull_after", 1, Placed(on_ps=on_ps)).ops
