"""The transforms of gradients: L2 and clipping."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ps_train.data.pipeline import Batches
from ps_train.engine.step.backward import Computed, PulledInputs
from ps_train.engine.step.parts.step_part import Compute, StepPart
from ps_train.engine.transport.sparse_mask import apply_masks
from ps_train.engine.updates.gradients.transforms import Transform


class Transforms(StepPart):
    """The part of a step that transforms its gradients.

    Args:
      transforms: the transforms, in their order.
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self._transforms = transforms

    def compute(self, compute: Compute) -> Compute:
        """Transforms the mean gradients; rows that a step does not use have no L2."""

        def transformed(inputs: PulledInputs, batches: Batches) -> Computed:
            computed = compute(inputs, batches)
            used = apply_masks({**inputs.values, **computed.rows}, {**computed.masks, **computed.used})
            gradients = computed.gradients
            for transform in self._transforms:
                gradients = transform(gradients, used)
            return dataclasses.replace(computed, gradients=gradients)

        return transformed
