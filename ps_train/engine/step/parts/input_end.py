"""The end of an input that only the model can see: a step of it then stands for no examples."""

from __future__ import annotations

import dataclasses

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.pipeline import Batches
from ps_train.engine.step.backward import Computed, PulledInputs
from ps_train.engine.step.parts.step_part import Compute, StepPart
from ps_train.modeling.model import ENDED


class InputEnd(StepPart):
    """The part of a step whose model tells in the collection ENDED that there was no batch.

    The loop ends the input of a replica at a step without examples.
    """

    def compute(self, compute: Compute) -> Compute:
        """Takes the examples from a step without a batch."""

        def computed(inputs: PulledInputs, batches: Batches) -> Computed:
            before = len(v1.get_collection(ENDED))
            found = compute(inputs, batches)
            has_ended = tf.reduce_any(tf.stack(v1.get_collection(ENDED)[before:]))
            examples = tf.where(has_ended, tf.zeros_like(found.examples), found.examples)
            return dataclasses.replace(found, examples=examples)

        return computed
